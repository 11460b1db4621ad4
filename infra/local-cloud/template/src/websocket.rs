//! The WebSocket API.

use super::attributes::api_id;
use super::error::{Read, did_you_mean, wrong};
use super::fields::{Fields, Shape};
use super::gateway::{Declared, RawAuthorizer};
use super::http_api::protocol;
use super::model::WebSocketApi;
use super::scope::{Resource, Scope};
use crate::{ACCOUNT, REGION};

const API: Shape = Shape::new("AWS::ApiGatewayV2::Api", &["ProtocolType", "RouteSelectionExpression"])
    .without_effect(&["Name", "Description", "Tags", "DisableExecuteApiEndpoint", "DisableSchemaValidation"])
    .refused(&[("ApiKeySelectionExpression", "use an authorizer")]);

/// Reads the WebSocket API, if the template has one.
pub(super) fn read(scope: &Scope, declared: &Declared) -> Read<Option<WebSocketApi>> {
    let mut found: Option<&Resource> = None;
    for resource in scope.included().filter(|resource| resource.kind == "AWS::ApiGatewayV2::Api") {
        if protocol(scope, resource)? != "WEBSOCKET" {
            continue;
        }
        if let Some(first) = found {
            return wrong(
                resource.line,
                format!("{} is a second WebSocket API beside {}; put its routes there", resource.id, first.id),
            );
        }
        found = Some(resource);
    }
    let Some(resource) = found else { return Ok(None) };
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &API)?;
    let id = api_id(&resource.id);
    let mut stages = declared.stages.iter().filter(|stage| stage.api == id);
    let Some(stage) = stages.next() else {
        return wrong(resource.line, format!("{} has no stage; add an AWS::ApiGatewayV2::Stage", resource.id));
    };
    if let Some(second) = stages.next() {
        return wrong(second.line, format!("{} has a second stage; an API has one stage here: remove it", resource.id));
    }
    let mut api = WebSocketApi {
        logical_id: resource.id.clone(),
        stage: stage.name.clone(),
        execute_arn: format!("arn:aws:execute-api:{REGION}:{ACCOUNT}:{id}"),
        route_selection: fields.need_text("RouteSelectionExpression")?.to_owned(),
        ..WebSocketApi::default()
    };
    for route in declared.routes.iter().filter(|route| route.api == id) {
        if let Some(authorizer) = &route.authorizer {
            match declared.authorizers.get(authorizer) {
                Some((_, RawAuthorizer::Request(request))) if route.key == "$connect" => {
                    api.connect_authorizer = Some(request.clone());
                }
                _ => {
                    return wrong(
                        route.line,
                        "a WebSocket API authorizes $connect with a REQUEST authorizer; put it there",
                    );
                }
            }
        }
        if api.routes.insert(route.key.clone(), route.function.clone()).is_some() {
            return wrong(route.line, format!("the route {} is there already; remove one of the two", route.key));
        }
    }
    // How many messages AWS lets through is AWS's alone: here the limits are read, and nothing is held back. That a
    // route with settings of its own is there is checked, as AWS does.
    if let Some(key) = stage.route_throttles.keys().find(|key| !api.routes.contains_key(*key)) {
        let hint = did_you_mean(key, api.routes.keys().map(String::as_str));
        return wrong(
            stage.line,
            format!("RouteSettings of {} names the route {key}, which is not there{hint}; correct it", resource.id),
        );
    }
    Ok(Some(api))
}
