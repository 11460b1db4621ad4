//! The HTTP API: SAM's `HttpApi` with the events of functions, or API Gateway's own resources, or both.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attributes::api_id;
use super::error::{Read, did_you_mean, wrong};
use super::events::{HttpEvent, check_route, one_or_more};
use super::fields::{Fields, Shape, entries, flag, text};
use super::gateway::{self, Declared, RawAuthorizer, RawRoute};
use super::globals::IMPLICIT_API;
use super::model::{Cors, HttpApi, JwtAuthorizer, Route, route_key};
use super::scope::{Resource, Scope};
use super::yaml::Node;

const SAM_API: Shape = Shape::new(
    "AWS::Serverless::HttpApi",
    &["Auth", "CorsConfiguration", "DefaultRouteSettings", "RouteSettings", "StageName"],
)
// The local gateway has one address and a log of its own.
.without_effect(&[
    "AccessLogSettings",
    "Description",
    "DisableExecuteApiEndpoint",
    "Domain",
    "FailOnWarnings",
    "Name",
    "PropagateTags",
    "Tags",
])
.refused(&[
    ("DefinitionBody", "declare the routes as HttpApi events of functions"),
    ("DefinitionUri", "declare the routes as HttpApi events of functions"),
    ("StageVariables", "give functions environment variables"),
]);

const OWN_API: Shape = Shape::new("AWS::ApiGatewayV2::Api", &["ProtocolType", "CorsConfiguration"])
    .without_effect(&["Name", "Description", "Tags", "DisableExecuteApiEndpoint", "FailOnWarnings"])
    .refused(&[
        ("Body", "declare the routes as AWS::ApiGatewayV2::Route"),
        ("Target", "declare the routes as AWS::ApiGatewayV2::Route"),
        ("RouteKey", "declare the routes as AWS::ApiGatewayV2::Route"),
    ]);

const AUTH: Shape = Shape::new("Auth", &["Authorizers", "DefaultAuthorizer"])
    .refused(&[("EnableIamAuthorizer", "use a JWT authorizer")]);
const AUTHORIZER: Shape = Shape::new("an authorizer", &["AuthorizationScopes", "IdentitySource", "JwtConfiguration"])
    .refused(&[
        ("FunctionArn", "use JwtConfiguration: functions authorize WebSockets only"),
        ("AuthorizerPayloadFormatVersion", "use JwtConfiguration: functions authorize WebSockets only"),
        ("EnableSimpleResponses", "use JwtConfiguration: functions authorize WebSockets only"),
        ("Identity", "use JwtConfiguration: functions authorize WebSockets only"),
    ]);
const JWT: Shape = Shape::new("JwtConfiguration", &["issuer", "audience", "Issuer", "Audience"]);
const CORS: Shape = Shape::new(
    "CorsConfiguration",
    &["AllowOrigins", "AllowMethods", "AllowHeaders", "ExposeHeaders", "AllowCredentials", "MaxAge"],
);

/// SAM's rules about who checks a route.
#[derive(Default)]
struct Auth {
    default: Option<String>,
    /// Scopes of routes that name none, by authorizer.
    scopes: BTreeMap<String, Vec<String>>,
}

/// Reads the HTTP API, if the template has one. `events` are the routes that functions' events make.
pub(super) fn read(scope: &Scope, declared: &Declared, events: Vec<HttpEvent>) -> Read<Option<HttpApi>> {
    let mut found: Option<&Resource> = None;
    for resource in scope.included().filter(|resource| is_http(scope, resource)) {
        if let Some(first) = found {
            return wrong(
                resource.line,
                format!("{} is a second HTTP API beside {}; put its routes there", resource.id, first.id),
            );
        }
        found = Some(resource);
    }
    let Some(resource) = found else {
        return match events.first() {
            Some(event) => wrong(event.line, "there is no HTTP API for this event; add one or remove its condition"),
            None => Ok(None),
        };
    };
    let properties = scope.value(&resource.properties)?;
    let mut api = HttpApi { logical_id: resource.id.clone(), stage: "$default".to_owned(), ..HttpApi::default() };
    let mut auth = Auth::default();
    if resource.kind == "AWS::Serverless::HttpApi" {
        let fields = Fields::read(&properties, &SAM_API)?;
        if let Some(stage) = fields.text("StageName")? {
            api.stage = stage.to_owned();
        }
        (api.throttle, api.route_throttles) = gateway::throttles(&fields)?;
        api.cors = fields.get("CorsConfiguration").map(cors).transpose()?.flatten();
        if let Some(section) = fields.fields("Auth", &AUTH)? {
            auth = authorizers(&section, &mut api.authorizers)?;
        }
    } else {
        let fields = Fields::read(&properties, &OWN_API)?;
        api.cors = fields.get("CorsConfiguration").map(cors).transpose()?.flatten();
    }
    let id = api_id(&resource.id);
    stage_of(&mut api, declared, &id)?;
    for event in events {
        event_route(&mut api, &auth, &id, event)?;
    }
    for route in declared.routes.iter().filter(|route| route.api == id) {
        own_route(&mut api, declared, route)?;
    }
    check_throttled_routes(&api, resource.line)?;
    Ok(Some(api))
}

fn is_http(scope: &Scope, resource: &Resource) -> bool {
    match resource.kind.as_str() {
        "AWS::Serverless::HttpApi" => true,
        "AWS::ApiGatewayV2::Api" => protocol(scope, resource).is_ok_and(|protocol| protocol == "HTTP"),
        _ => false,
    }
}

/// `ProtocolType` of an `AWS::ApiGatewayV2::Api`.
pub(super) fn protocol(scope: &Scope, resource: &Resource) -> Read<String> {
    let wanted = "write ProtocolType: HTTP or WEBSOCKET";
    let Some(node) = resource.properties.get("ProtocolType") else {
        return wrong(resource.line, format!("{} does not say what it speaks; {wanted}", resource.id));
    };
    let value = scope.value(node)?;
    match text(&value, "ProtocolType")? {
        known @ ("HTTP" | "WEBSOCKET") => Ok(known.to_owned()),
        other => wrong(value.line, format!("ProtocolType cannot be {other}; {wanted}")),
    }
}

fn stage_of(api: &mut HttpApi, declared: &Declared, id: &str) -> Read<()> {
    let mut stages = declared.stages.iter().filter(|stage| stage.api == id);
    let Some(stage) = stages.next() else { return Ok(()) };
    if let Some(second) = stages.next() {
        return wrong(
            second.line,
            format!("{} has a second stage; an API has one stage here: remove it", api.logical_id),
        );
    }
    api.stage = stage.name.clone();
    api.throttle = stage.throttle.or(api.throttle);
    api.route_throttles.extend(stage.route_throttles.clone());
    Ok(())
}

fn authorizers(section: &Fields, all: &mut BTreeMap<String, JwtAuthorizer>) -> Read<Auth> {
    let mut auth = Auth::default();
    let declared = match section.get("Authorizers") {
        Some(node) => entries(node, "Authorizers")?,
        None => &[],
    };
    for entry in declared {
        let fields = Fields::read(&entry.node, &AUTHORIZER)?;
        if let Some(source) = fields.get("IdentitySource") {
            gateway::bearer_only(&one_or_more(source, "IdentitySource")?, source.line)?;
        }
        let jwt = Fields::read(fields.need("JwtConfiguration")?, &JWT)?;
        let issuer = jwt.get("issuer").or(jwt.get("Issuer"));
        let audience = jwt.get("audience").or(jwt.get("Audience"));
        let (Some(issuer), Some(audience)) = (issuer, audience) else {
            return wrong(jwt.line, "JwtConfiguration needs issuer and audience; give both");
        };
        let issuer = text(issuer, "issuer")?.to_owned();
        all.insert(entry.key.clone(), JwtAuthorizer { issuer, audience: one_or_more(audience, "audience")? });
        auth.scopes.insert(entry.key.clone(), fields.texts("AuthorizationScopes")?);
    }
    if let Some(name) = section.text("DefaultAuthorizer")? {
        known_authorizer(all, name, section.line_of("DefaultAuthorizer"))?;
        auth.default = Some(name.to_owned());
    }
    Ok(auth)
}

fn known_authorizer(all: &BTreeMap<String, JwtAuthorizer>, name: &str, line: usize) -> Read<()> {
    if all.contains_key(name) {
        return Ok(());
    }
    let hint = did_you_mean(name, all.keys().map(String::as_str));
    wrong(line, format!("there is no authorizer {name}{hint}; declare it under Auth: Authorizers"))
}

fn event_route(api: &mut HttpApi, auth: &Auth, id: &str, event: HttpEvent) -> Read<()> {
    let own = event.api.as_deref().unwrap_or(if api.logical_id == IMPLICIT_API { id } else { "" });
    if own != id {
        return wrong(
            event.line,
            format!("this event is not on the API {}; write ApiId: !Ref {}", api.logical_id, api.logical_id),
        );
    }
    let authorizer = match event.authorizer.as_deref() {
        Some("NONE") => None,
        Some(name) => {
            known_authorizer(&api.authorizers, name, event.line)?;
            Some(name.to_owned())
        }
        None => auth.default.clone(),
    };
    let scopes = match (&authorizer, event.scopes) {
        (None, Some(scopes)) if !scopes.is_empty() => {
            return wrong(event.line, "scopes without an authorizer check nothing; name an Authorizer or remove them");
        }
        (None, _) => Vec::new(),
        (Some(_), Some(scopes)) => scopes,
        (Some(name), None) => auth.scopes.get(name).cloned().unwrap_or_default(),
    };
    if let Some(throttle) = event.throttle {
        api.route_throttles.insert(route_key(&event.method, &event.path), throttle);
    }
    let route = Route { method: event.method, path: event.path, function: event.function, authorizer, scopes };
    add(api, route, event.line)
}

fn own_route(api: &mut HttpApi, declared: &Declared, raw: &RawRoute) -> Read<()> {
    let (method, path) = match raw.key.split_once(' ') {
        Some((method, path)) => (method.to_owned(), path.to_owned()),
        None => ("ANY".to_owned(), raw.key.clone()),
    };
    check_route(&method, &path, raw.line)?;
    if let Some(id) = &raw.authorizer {
        match declared.authorizers.get(id) {
            Some((_, RawAuthorizer::Jwt(jwt))) => {
                api.authorizers.insert(id.clone(), jwt.clone());
            }
            _ => return wrong(raw.line, "an HTTP API's authorizer is a JWT one here; write AuthorizerType: JWT"),
        }
    }
    let (authorizer, scopes) = (raw.authorizer.clone(), raw.scopes.clone());
    add(api, Route { method, path, function: raw.function.clone(), authorizer, scopes }, raw.line)
}

fn add(api: &mut HttpApi, route: Route, line: usize) -> Read<()> {
    if api.routes.iter().any(|known| known.method == route.method && same_path(&known.path, &route.path)) {
        let key = route.key();
        return wrong(line, format!("the route {key} is there already; remove one of the two"));
    }
    api.routes.push(route);
    Ok(())
}

/// Names of path parameters do not tell two routes apart.
fn same_path(one: &str, other: &str) -> bool {
    let shape = |part: &str| match (part.starts_with('{'), part.ends_with("+}")) {
        (true, true) => "{+}".to_owned(),
        (true, false) => "{}".to_owned(),
        (false, _) => part.to_owned(),
    };
    one.split('/').map(shape).eq(other.split('/').map(shape))
}

/// AWS refuses to deploy settings of a route that is not there.
fn check_throttled_routes(api: &HttpApi, line: usize) -> Read<()> {
    let keys: Vec<String> = api.routes.iter().map(Route::key).collect();
    match api.route_throttles.keys().find(|key| !keys.contains(key)) {
        Some(key) => {
            let hint = did_you_mean(key, keys.iter().map(String::as_str));
            wrong(
                line,
                format!(
                    "RouteSettings of {} names the route {key}, which is not there{hint}; correct it",
                    api.logical_id
                ),
            )
        }
        None => Ok(()),
    }
}

fn cors(node: &Node) -> Read<Option<Cors>> {
    if node.as_text().is_some() {
        // SAM's short form.
        let all = Cors { origins: vec!["*".to_owned()], ..Cors::default() };
        return flag(node, "CorsConfiguration").map(|on| on.then_some(all));
    }
    let fields = Fields::read(node, &CORS)?;
    let cors = Cors {
        origins: fields.texts("AllowOrigins")?,
        methods: fields.texts("AllowMethods")?,
        headers: fields.texts("AllowHeaders")?,
        expose_headers: fields.texts("ExposeHeaders")?,
        credentials: fields.flag("AllowCredentials")?.unwrap_or(false),
        max_age: fields.number("MaxAge", 0..=86_400)?.map(Duration::from_secs),
    };
    if cors.credentials && cors.origins.iter().any(|origin| origin == "*") {
        return wrong(fields.line_of("AllowCredentials"), "credentials cannot go with the origin *; name the origins");
    }
    Ok(Some(cors))
}
