//! What API Gateway's own resources (`AWS::ApiGatewayV2::…`) declare, before it is put together as an HTTP API or a
//! WebSocket API.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::api_id;
use super::error::{Read, wrong};
use super::events;
use super::fields::{Fields, Shape, entries, text};
use super::known::Known;
use super::model::{JwtAuthorizer, RequestAuthorizer, Throttle};
use super::scope::{Resource, Scope};

const INTEGRATION: Shape = Shape::new(
    "AWS::ApiGatewayV2::Integration",
    &["ApiId", "IntegrationType", "IntegrationUri", "IntegrationMethod", "PayloadFormatVersion"],
)
.without_effect(&["Description", "ConnectionType", "ContentHandlingStrategy"])
.refused(&[
    ("TimeoutInMillis", "set the function's Timeout: the gateway waits 30 seconds"),
    ("CredentialsArn", "let API Gateway in with AWS::Lambda::Permission"),
    ("RequestParameters", "do it in the function"),
    ("ResponseParameters", "do it in the function"),
    ("RequestTemplates", "do it in the function"),
]);

const ROUTE: Shape = Shape::new(
    "AWS::ApiGatewayV2::Route",
    &["ApiId", "RouteKey", "Target", "AuthorizationType", "AuthorizerId", "AuthorizationScopes"],
)
.without_effect(&["OperationName"])
.refused(&[
    ("ApiKeyRequired", "use an authorizer"),
    ("RouteResponseSelectionExpression", "answer through @connections"),
    ("ModelSelectionExpression", "check the body in the function"),
    ("RequestModels", "check the body in the function"),
    ("RequestParameters", "check them in the function"),
]);

const AUTHORIZER: Shape = Shape::new(
    "AWS::ApiGatewayV2::Authorizer",
    &["ApiId", "AuthorizerType", "Name", "JwtConfiguration", "IdentitySource", "AuthorizerUri"],
)
// Answers of an authorizer are not kept here: it is asked every time.
.without_effect(&["AuthorizerResultTtlInSeconds"])
.refused(&[
    ("AuthorizerCredentialsArn", "let API Gateway in with AWS::Lambda::Permission"),
    ("EnableSimpleResponses", "answer with a policy"),
    ("AuthorizerPayloadFormatVersion", "WebSocket authorizers have one format"),
]);
const JWT: Shape = Shape::new("JwtConfiguration", &["Issuer", "Audience"]);

const STAGE: Shape =
    Shape::new("AWS::ApiGatewayV2::Stage", &["ApiId", "StageName", "DefaultRouteSettings", "RouteSettings"])
        // A local API is always the latest one, and the gateway has a log of its own.
        .without_effect(&["AutoDeploy", "DeploymentId", "Description", "AccessLogSettings", "AccessPolicyId", "Tags"])
        .refused(&[
            ("StageVariables", "give functions environment variables"),
            ("ClientCertificateId", "leave it out"),
        ]);

const PERMISSION: Shape = Shape::new("AWS::Lambda::Permission", &["Action", "FunctionName", "Principal"])
    // From where a service may call: there is one of each here.
    .without_effect(&["SourceArn", "SourceAccount"])
    .refused(&[
        ("FunctionUrlAuthType", "use an HttpApi event"),
        ("PrincipalOrgID", "name a service as Principal"),
        ("EventSourceToken", "name a service as Principal"),
    ]);

/// A route of an explicit resource.
pub(super) struct RawRoute {
    pub(super) line: usize,
    pub(super) api: String,
    pub(super) key: String,
    pub(super) function: String,
    pub(super) authorizer: Option<String>,
    pub(super) scopes: Vec<String>,
}

/// An authorizer of an explicit resource.
#[derive(Clone)]
pub(super) enum RawAuthorizer {
    Jwt(JwtAuthorizer),
    Request(RequestAuthorizer),
}

/// A stage of an explicit resource.
pub(super) struct RawStage {
    pub(super) line: usize,
    pub(super) api: String,
    pub(super) name: String,
    pub(super) throttle: Option<Throttle>,
    pub(super) route_throttles: BTreeMap<String, Throttle>,
}

/// Everything that explicit resources declare.
#[derive(Default)]
pub(super) struct Declared {
    pub(super) routes: Vec<RawRoute>,
    /// By the authorizer's logical id, with the API's id.
    pub(super) authorizers: BTreeMap<String, (String, RawAuthorizer)>,
    pub(super) stages: Vec<RawStage>,
    /// Function names by the integration's logical id, with the API's id.
    integrations: BTreeMap<String, (String, String)>,
    /// Functions that API Gateway may invoke.
    permitted: BTreeSet<String>,
}

impl Declared {
    pub(super) fn read(scope: &Scope, known: &Known) -> Read<Self> {
        let mut declared = Self::default();
        let of = |kind: &'static str| scope.included().filter(move |resource| resource.kind == kind);
        for resource in of("AWS::Lambda::Permission") {
            declared.permission(scope, known, resource)?;
        }
        for resource in of("AWS::ApiGatewayV2::Integration") {
            declared.integration(scope, known, resource)?;
        }
        for resource in of("AWS::ApiGatewayV2::Authorizer") {
            declared.authorizer(scope, known, resource)?;
        }
        for resource in of("AWS::ApiGatewayV2::Stage") {
            declared.stage(scope, resource)?;
        }
        for resource in of("AWS::ApiGatewayV2::Route") {
            declared.route(scope, resource)?;
        }
        Ok(declared)
    }

    fn permission(&mut self, scope: &Scope, known: &Known, resource: &Resource) -> Read<()> {
        let properties = scope.value(&resource.properties)?;
        let fields = Fields::read(&properties, &PERMISSION)?;
        fields.need("Action")?;
        fields.one_of("Action", &["lambda:InvokeFunction"])?;
        let function = known.function(fields.need_text("FunctionName")?, fields.line_of("FunctionName"))?;
        if fields.need_text("Principal")? == "apigateway.amazonaws.com" {
            self.permitted.insert(function.name.clone());
        }
        Ok(())
    }

    /// AWS answers 500 when API Gateway may not invoke what a route leads to.
    fn permitted(&self, function: &str, line: usize) -> Read<()> {
        if self.permitted.contains(function) {
            return Ok(());
        }
        wrong(
            line,
            format!(
                "API Gateway may not invoke {function}; add an AWS::Lambda::Permission for apigateway.amazonaws.com"
            ),
        )
    }

    fn integration(&mut self, scope: &Scope, known: &Known, resource: &Resource) -> Read<()> {
        let properties = scope.value(&resource.properties)?;
        let fields = Fields::read(&properties, &INTEGRATION)?;
        fields.need("IntegrationType")?;
        fields.one_of("IntegrationType", &["AWS_PROXY"])?;
        fields.one_of("IntegrationMethod", &["POST"])?;
        fields.one_of("PayloadFormatVersion", &["2.0", "1.0"])?;
        let line = fields.line_of("IntegrationUri");
        let function = known.function(fields.need_text("IntegrationUri")?, line)?;
        self.permitted(&function.name, line)?;
        self.integrations.insert(resource.id.clone(), (api(scope, &fields)?, function.name.clone()));
        Ok(())
    }

    fn authorizer(&mut self, scope: &Scope, known: &Known, resource: &Resource) -> Read<()> {
        let properties = scope.value(&resource.properties)?;
        let fields = Fields::read(&properties, &AUTHORIZER)?;
        fields.need("AuthorizerType")?;
        let identity = fields.texts("IdentitySource")?;
        let authorizer = if fields.one_of("AuthorizerType", &["JWT", "REQUEST"])? == Some("JWT") {
            let jwt = Fields::read(fields.need("JwtConfiguration")?, &JWT)?;
            bearer_only(&identity, fields.line_of("IdentitySource"))?;
            RawAuthorizer::Jwt(JwtAuthorizer {
                issuer: jwt.need_text("Issuer")?.to_owned(),
                audience: jwt.texts("Audience")?,
            })
        } else {
            let line = fields.line_of("AuthorizerUri");
            let function = known.function(fields.need_text("AuthorizerUri")?, line)?;
            self.permitted(&function.name, line)?;
            RawAuthorizer::Request(RequestAuthorizer { function: function.name.clone(), identity })
        };
        self.authorizers.insert(resource.id.clone(), (api(scope, &fields)?, authorizer));
        Ok(())
    }

    fn stage(&mut self, scope: &Scope, resource: &Resource) -> Read<()> {
        let properties = scope.value(&resource.properties)?;
        let fields = Fields::read(&properties, &STAGE)?;
        let (throttle, route_throttles) = throttles(&fields)?;
        self.stages.push(RawStage {
            line: resource.line,
            api: api(scope, &fields)?,
            name: fields.need_text("StageName")?.to_owned(),
            throttle,
            route_throttles,
        });
        Ok(())
    }

    fn route(&mut self, scope: &Scope, resource: &Resource) -> Read<()> {
        let properties = scope.value(&resource.properties)?;
        let fields = Fields::read(&properties, &ROUTE)?;
        let own_api = api(scope, &fields)?;
        let target = fields.need_text("Target")?;
        let integration = target.strip_prefix("integrations/").and_then(|id| self.integrations.get(id));
        let function = match integration {
            Some((api, function)) if *api == own_api => function.clone(),
            _ => {
                let line = fields.line_of("Target");
                return wrong(
                    line,
                    format!("{target} is no integration of this API; write !Sub integrations/${{Integration}}"),
                );
            }
        };
        self.routes.push(RawRoute {
            line: resource.line,
            key: fields.need_text("RouteKey")?.to_owned(),
            function,
            authorizer: self.route_authorizer(&fields, &own_api)?,
            scopes: fields.texts("AuthorizationScopes")?,
            api: own_api,
        });
        Ok(())
    }

    fn route_authorizer(&self, fields: &Fields, own_api: &str) -> Read<Option<String>> {
        let kind = fields.one_of("AuthorizationType", &["NONE", "JWT", "CUSTOM"])?.unwrap_or("NONE");
        let line = fields.line_of("AuthorizationType");
        let id = fields.text("AuthorizerId")?;
        let found = id.and_then(|id| self.authorizers.get(id)).filter(|(api, _)| api == own_api);
        match (kind, id, found) {
            ("NONE", None, _) => Ok(None),
            ("NONE", Some(_), _) => {
                wrong(line, "an AuthorizerId without AuthorizationType checks nothing; say JWT or CUSTOM")
            }
            ("JWT", Some(id), Some((_, RawAuthorizer::Jwt(_)))) => Ok(Some(id.to_owned())),
            ("CUSTOM", Some(id), Some((_, RawAuthorizer::Request(_)))) => Ok(Some(id.to_owned())),
            _ => wrong(
                line,
                format!("{kind} needs an AuthorizerId of that kind on this API; write !Ref of its Authorizer"),
            ),
        }
    }
}

/// API Gateway looks for a bearer token in one place here.
pub(super) fn bearer_only(identity: &[String], line: usize) -> Read<()> {
    if identity.iter().all(|source| source.eq_ignore_ascii_case("$request.header.Authorization")) {
        return Ok(());
    }
    wrong(line, "tokens come in one header here; write $request.header.Authorization")
}

/// The API that `ApiId` names.
fn api(scope: &Scope, fields: &Fields) -> Read<String> {
    let id = text(fields.need("ApiId")?, "ApiId")?;
    let is_api = |resource: &&Resource| {
        matches!(resource.kind.as_str(), "AWS::Serverless::HttpApi" | "AWS::ApiGatewayV2::Api")
            && api_id(&resource.id) == id
    };
    if scope.included().any(|resource| is_api(&resource)) {
        return Ok(id.to_owned());
    }
    wrong(fields.line_of("ApiId"), format!("{id} is no API of this template; write !Ref of one of its APIs"))
}

/// A stage's throttling: of every route, and of single ones by route key.
pub(super) fn throttles(fields: &Fields) -> Read<(Option<Throttle>, BTreeMap<String, Throttle>)> {
    let all = fields.get("DefaultRouteSettings").map(events::throttle).transpose()?.flatten();
    let mut single = BTreeMap::new();
    if let Some(settings) = fields.get("RouteSettings") {
        for entry in entries(settings, "RouteSettings")? {
            if let Some(throttle) = events::throttle(&entry.node)? {
                single.insert(entry.key.clone(), throttle);
            }
        }
    }
    Ok((all, single))
}
