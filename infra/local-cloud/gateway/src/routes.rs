//! Which route of the HTTP API takes a request: the most specific path, then the exact method before `ANY`, then
//! `$default`. A path that exists with other methods only is not found: HTTP APIs never answer 405.

use std::collections::BTreeMap;

use crate::template::model::Route;
use crate::template::percent_decode;

/// The routes of an API, ready to be matched.
#[derive(Debug)]
pub(super) struct Routes {
    routes: Vec<Pattern>,
    default: Option<Route>,
}

#[derive(Debug)]
struct Pattern {
    route: Route,
    segments: Vec<Segment>,
}

/// A part of a path between slashes.
#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Literal(String),
    Parameter(String),
    Greedy(String),
}

/// A route and the values of its path parameters.
#[derive(Debug, PartialEq)]
pub(super) struct Matched<'a> {
    pub(super) route: &'a Route,
    pub(super) parameters: BTreeMap<String, String>,
}

impl Routes {
    pub(super) fn new(routes: &[Route]) -> Self {
        let (defaults, paths): (Vec<_>, Vec<_>) = routes.iter().cloned().partition(|route| route.path == "$default");
        let routes = paths
            .into_iter()
            .map(|route| Pattern { segments: route.path.split('/').skip(1).map(segment).collect(), route })
            .collect();
        Self { routes, default: defaults.into_iter().next() }
    }

    /// The route for a method and a path that is still percent-encoded.
    pub(super) fn find(&self, method: &str, path: &str) -> Option<Matched<'_>> {
        let best = self
            .routes
            .iter()
            .filter(|pattern| pattern.route.method == method || pattern.route.method == "ANY")
            .filter_map(|pattern| Some((pattern, capture(&pattern.segments, path)?)))
            .min_by_key(|(pattern, _)| (specificity(&pattern.segments), pattern.route.method == "ANY"));
        match best {
            Some((pattern, parameters)) => Some(Matched { route: &pattern.route, parameters }),
            None => self.default.as_ref().map(|route| Matched { route, parameters: BTreeMap::new() }),
        }
    }
}

fn segment(text: &str) -> Segment {
    match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => match name.strip_suffix('+') {
            Some(greedy) => Segment::Greedy(greedy.to_owned()),
            None => Segment::Parameter(name.to_owned()),
        },
        None => Segment::Literal(text.to_owned()),
    }
}

/// Literal before parameter before greedy, from the left: the names of parameters play no part.
fn specificity(segments: &[Segment]) -> Vec<u8> {
    let rank = |segment: &Segment| match segment {
        Segment::Literal(_) => 0,
        Segment::Parameter(_) => 1,
        Segment::Greedy(_) => 2,
    };
    segments.iter().map(rank).collect()
}

fn capture(segments: &[Segment], path: &str) -> Option<BTreeMap<String, String>> {
    let mut rest = Some(path.strip_prefix('/')?);
    let mut parameters = BTreeMap::new();
    for segment in segments {
        let here = rest?;
        if let Segment::Greedy(name) = segment {
            parameters.insert(name.clone(), percent_decode(here));
            return (!here.is_empty()).then_some(parameters);
        }
        let (text, after) = match here.split_once('/') {
            Some((text, after)) => (text, Some(after)),
            None => (here, None),
        };
        rest = after;
        match segment {
            Segment::Literal(literal) if *literal == percent_decode(text) => {}
            Segment::Parameter(name) if !text.is_empty() => {
                parameters.insert(name.clone(), percent_decode(text));
            }
            _ => return None,
        }
    }
    rest.is_none().then_some(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(keys: &[&str]) -> Routes {
        let routes: Vec<Route> = keys
            .iter()
            .map(|key| {
                let (method, path) = key.split_once(' ').unwrap_or(("ANY", key));
                let (method, path) = (method.to_owned(), path.to_owned());
                Route { method, path, function: (*key).to_owned(), authorizer: None, scopes: Vec::new() }
            })
            .collect();
        Routes::new(&routes)
    }

    fn found(routes: &Routes, method: &str, path: &str) -> Option<String> {
        routes.find(method, path).map(|matched| matched.route.key())
    }

    /// The example of API Gateway's own documentation.
    #[test]
    fn the_most_specific_route_wins() {
        let routes = routes(&[
            "$default",
            "ANY /{proxy+}",
            "GET /pets/{proxy+}",
            "GET /pets/dog/{id}",
            "GET /pets/dog/1",
            "ANY /pets/dog/1",
        ]);
        for (method, path, expected) in [
            ("GET", "/pets/dog/1", "GET /pets/dog/1"),
            ("POST", "/pets/dog/1", "ANY /pets/dog/1"),
            ("GET", "/pets/dog/2", "GET /pets/dog/{id}"),
            ("GET", "/pets/cat/1/2", "GET /pets/{proxy+}"),
            ("POST", "/pets/cat", "ANY /{proxy+}"),
            ("GET", "/", "$default"),
        ] {
            assert_eq!(found(&routes, method, path).as_deref(), Some(expected), "{method} {path}");
        }
    }

    #[test]
    fn a_wrong_method_a_trailing_slash_and_an_empty_parameter_are_not_found() {
        let routes = routes(&["GET /orders/{orderId}", "POST /buy"]);
        for (method, path) in [
            ("DELETE", "/buy"),
            ("POST", "/buy/"),
            ("POST", "/Buy"),
            ("GET", "/orders/"),
            ("GET", "/orders"),
            ("GET", "/orders/1/2"),
            ("GET", "*"),
        ] {
            assert_eq!(found(&routes, method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn parameters_are_decoded_after_the_path_is_split() {
        let routes = routes(&["GET /orders/{orderId}", "GET /files/{path+}"]);
        let matched = routes.find("GET", "/orders/a%2Fb%20c").unwrap();
        assert_eq!(matched.parameters, BTreeMap::from([("orderId".to_owned(), "a/b c".to_owned())]));
        let matched = routes.find("GET", "/files/x/y.txt").unwrap();
        assert_eq!(matched.parameters, BTreeMap::from([("path".to_owned(), "x/y.txt".to_owned())]));
    }
}
