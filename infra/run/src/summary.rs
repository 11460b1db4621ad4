//! What a person sees when the local cloud has started.

use std::fmt::Write as _;

use super::{DemoSale, Options, SeckillLocal};

/// What the summary is written from.
pub(super) struct Facts<'a> {
    pub(super) system: &'a SeckillLocal,
    pub(super) options: &'a Options,
    pub(super) demo: Option<&'a DemoSale>,
    pub(super) colours: bool,
}

pub(super) fn write(facts: &Facts<'_>) -> String {
    let (cloud, options) = (facts.system, facts.options);
    let paint =
        |code: &str, text: &str| if facts.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let url = cloud.base_url();
    let mut lines: Vec<(&str, String)> = vec![("API", url.clone()), ("Storefront", format!("{url}/"))];
    if super::web_directory(&options.template).is_some() {
        lines.push(("Console", format!("{url}/console")));
    }
    if cloud.stack().websocket_api.is_some() {
        lines.push(("WebSocket", format!("{}/ws?token=…", url.replacen("http", "ws", 1))));
    }
    lines.push(("Payments", format!("{url}/_sandbox  (Alipay, WeChat Pay and Stripe, played)")));
    lines.push(("State", format!("{url}/_local/stack")));
    lines.push(("Events", format!("{url}/_local/events  (what was put on event buses)")));
    lines.push(("Data", format!("{}  (kept between runs; --fresh starts over)", options.data_dir.display())));
    lines.push(("Logs", format!("{}/FUNCTION.log  (--logs all shows them here)", cloud.logs_dir().display())));

    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n  {}\n", paint("1", "seckill 秒杀, the local cloud"));
    for (name, text) in &lines {
        let _ =
            writeln!(out, "  {:<12}{}", name, if text.starts_with("http") { paint("36", text) } else { text.clone() });
    }
    let _ = writeln!(out, "\n  {}", paint("1", "A token"));
    for body in [r#"{"sub": "buyer-1"}"#, r#"{"sub": "me", "scope": "seckill/admin"}"#] {
        let _ = writeln!(out, "  curl -s {url}/_local/token -d '{body}'");
    }
    if let Some(demo) = facts.demo {
        let title = if demo.is_new { "A demo sale was made for this first run" } else { "The demo sale" };
        let _ = writeln!(out, "\n  {}", paint("1", title));
        let _ = writeln!(out, "  curl -s {url}/sales/{}", demo.sale_id);
        let _ = writeln!(out, "  TOKEN=$(curl -s {url}/_local/token -d '{{\"sub\": \"buyer-1\"}}' | cut -d'\"' -f4)");
        let _ = writeln!(
            out,
            "  curl -s {url}/seckill -H \"authorization: Bearer $TOKEN\" -H 'content-type: application/json' \\\n    \
             -d '{{\"saleId\": \"{}\", \"itemId\": \"{}\", \"quantity\": 1}}'",
            demo.sale_id, demo.item_id
        );
    }
    let stack = cloud.stack();
    let routes = stack.http_api.as_ref().map_or(0, |api| api.routes.len());
    let (functions, tables, queues) = (stack.functions.len(), stack.tables.len(), stack.queues.len());
    let counts = format!("{functions} functions, {routes} routes, {tables} tables, {queues} queues");
    let _ = writeln!(out, "\n  {} from {}. Ctrl-C stops it.\n", counts, options.template.display());
    out
}
