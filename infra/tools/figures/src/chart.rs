//! Line charts as self-contained SVG, without scripts, fonts or other files.

use std::fmt::Write as _;

use crate::number;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;
/// Colours that stay distinguishable in print and for colour-blind readers.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
/// The number of horizontal grid lines.
const STEPS: u32 = 4;

/// One line of a chart, with its points from left to right.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A chart with several lines.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    pub series: Vec<Series>,
}

impl Chart {
    pub fn svg(&self) -> String {
        let points =
            || self.series.iter().flat_map(|series| &series.points).filter(|(x, y)| x.is_finite() && y.is_finite());
        let x_max = round_up(points().map(|(x, _)| *x).fold(0.0, f64::max));
        let y_max = round_up(points().map(|(_, y)| *y).fold(0.0, f64::max));
        let at = |x: f64, y: f64| {
            (LEFT + x / x_max * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM))
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"15\" font-weight=\"600\">{title}</text>\n",
            title = escape(&self.title),
        );
        // Writing into a string cannot fail.
        for step in 0..=STEPS {
            let share = f64::from(step) / f64::from(STEPS);
            let (_, y) = at(0.0, y_max * share);
            let (x, floor) = at(x_max * share, 0.0);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                number(y_max * share),
                floor + 16.0,
                number(x_max * share),
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"20\" text-anchor=\"end\" fill=\"#555\">{} over {}</text>",
            WIDTH - RIGHT,
            escape(&self.y),
            escape(&self.x),
        );
        let mut legend = LEFT;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let line: Vec<String> = series
                .points
                .iter()
                .filter(|(x, y)| x.is_finite() && y.is_finite())
                .map(|(x, y)| at(*x, *y))
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let y = HEIGHT - 12.0;
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
                 <rect x=\"{legend:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                line.join(" "),
                y - 9.0,
                legend + 14.0,
                escape(&series.name),
            );
            // A letter is about seven pixels wide.
            legend += 14.0 + 24.0 + 7.0 * f64::from(u32::try_from(series.name.chars().count()).unwrap_or(0));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// An HTML page with a title, charts and text.
pub fn page(title: &str, charts: &[Chart], text: &str) -> String {
    let charts: String = charts.iter().map(Chart::svg).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>body{{font-family:system-ui,sans-serif;max-width:900px;margin:2rem auto;padding:0 1rem;color:#222}}\
         svg{{width:100%;height:auto;margin:1rem 0;border:1px solid #eee}}\
         pre{{overflow-x:auto;line-height:1.4}}</style>\n\
         <h1>{title}</h1>\n{charts}<pre>{}</pre>\n</html>\n",
        escape(text),
        title = escape(title),
    )
}

/// The next round number, at which an axis ends. Never 0, because it is a divisor.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let size = 10_f64.powf(value.log10().floor());
    [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * size)
        .find(|top| *top >= value)
        .unwrap_or(value)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_to_scale() {
        let points = vec![(0.0, 0.0), (10.0, 100.0)];
        let chart = Chart {
            title: "Presses <& more>".into(),
            x: "seconds".into(),
            y: "a second".into(),
            series: vec![Series { name: "accepted".into(), points }],
        };
        let svg = chart.svg();
        assert!(svg.contains("points=\"70.0,240.0 840.0,40.0\""), "{svg}");
        assert!(svg.contains("Presses &lt;&amp; more&gt;") && !svg.contains("<& more"), "{svg}");
        assert!(svg.contains(">100<") && svg.contains(">2.50<"), "{svg}");
    }

    #[test]
    fn a_chart_without_points_is_drawn() {
        let svg =
            Chart { series: vec![Series { name: "a".into(), points: vec![(f64::NAN, 1.0)] }], ..Chart::default() }
                .svg();
        assert!(svg.contains("points=\"\"") && !svg.contains("NaN"), "{svg}");
        assert!(page("a <b>", &[], "x < y").contains("<pre>x &lt; y</pre>"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.0, 0.7, 1.0, 11.0, 449.0, 9_100.0].map(round_up), [1.0, 0.8, 1.0, 12.0, 500.0, 10_000.0]);
    }
}
