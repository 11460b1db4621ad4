//! The first page: what runs here, and the lines for a first purchase. The storefront takes its place once there is one.

use std::fmt::Write as _;

use super::routes::route_key;
use crate::html::escape;
use crate::template::model::Stack;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #d6336c; }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; margin: 0; } h1 span { color: var(--accent); } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; overflow-x: auto; }
code, pre { font: 14px/1.55 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .35rem .75rem .35rem 0;
border-bottom: 1px solid var(--line); } th { font-weight: 600; }
";

/// The page for a stack that is reached at `host`.
pub(super) fn page(stack: &Stack, host: &str) -> String {
    let host = escape(host);
    let mut rows = String::new();
    for route in stack.http_api.iter().flat_map(|api| &api.routes) {
        let access = match (&route.authorizer, route.scopes.is_empty()) {
            (None, _) => "open".to_owned(),
            (Some(_), true) => "token".to_owned(),
            (Some(_), false) => format!("token with {}", route.scopes.join(" or ")),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            rows,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            escape(&route_key(route)),
            escape(&route.function),
            escape(&access)
        );
    }
    format!(
        r#"<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>seckill, local cloud</title><style>{STYLE}</style></head>
<body>
<h1>seckill <span>秒杀</span></h1>
<p>The flash-sale backend of <code>template.yaml</code> runs here: {functions} functions as real processes, {tables} tables
and {queues} queues, on this machine only.</p>
<h2>A first purchase</h2>
<pre>
# a token for a buyer
TOKEN=$(curl -s http://{host}/_local/token -d '{{"sub": "buyer-1"}}' | sed 's/.*:"\(.*\)".*/\1/')

# what is on sale
curl -s http://{host}/sales -H "authorization: Bearer $TOKEN"

# buy one
curl -s http://{host}/seckill -H "authorization: Bearer $TOKEN" -H 'content-type: application/json' \
  -d '{{"saleId": "…", "itemId": "…", "quantity": 1}}'

# and see what became of it
curl -s http://{host}/orders -H "authorization: Bearer $TOKEN"
</pre>
<p>An operator's token has a scope: <code>-d '{{"sub": "me", "scope": "seckill/admin"}}'</code>.
The state of everything: <a href="/_local/stack"><code>/_local/stack</code></a>.
Alipay, WeChat Pay and Stripe are played by a sandbox: <a href="/_sandbox"><code>/_sandbox</code></a>.</p>
<h2>Routes</h2>
<table><thead><tr><th>Route</th><th>Function</th><th>Access</th></tr></thead><tbody>
{rows}</tbody></table>
</body>
</html>
"#,
        functions = stack.functions.len(),
        tables = stack.tables.len(),
        queues = stack.queues.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_header_cannot_write_into_the_page() {
        let page = page(&Stack::default(), "<script>alert(1)</script>");
        assert!(!page.contains("<script>"));
        assert!(page.contains("http://&lt;script&gt;"));
    }
}
