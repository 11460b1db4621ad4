//! The permission check: may this caller do this to that?
//!
//! Each function's process signs with an access key id of its own ([`access_key_id`]). Every request is turned into
//! the actions and resources that AWS would ask about, and checked against the statements that the template gives
//! that function. What no statement allows is refused, and so is what is not known here: nothing is let through by
//! default. Which statement let a caller do what is remembered ([`Policies::used`]), so that a test can hold what
//! is granted against what is needed. Signatures themselves are not checked: the secret would be in the same
//! process.

mod requests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::Request;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use local_cloud_template as template;
use local_cloud_template::{ACCOUNT, REGION};

use crate::template::model::{Effect, Origin, Stack, Statement, WebSocketApi};
use template::access::{Access, Decision, decide, is_conditional};
pub use template::access::{allows, like};

/// The key of tools and of the local cloud itself: it may do everything.
pub const ROOT_ACCESS_KEY_ID: &str = "AKIALOCALROOT0000000";

/// The access key id of a function's process: 20 characters, the same at every start.
pub fn access_key_id(function_name: &str) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let digest = Sha256::digest(function_name.as_bytes());
    let letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).map_or('A', |letter| char::from(*letter));
    "AKIA".chars().chain(digest.iter().take(16).map(letter)).collect()
}

/// Decides whether the caller with this access key id may make this call.
pub type Authorizer = Arc<dyn Fn(&str, &Request<Bytes>) -> Result<(), Denied> + Send + Sync>;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Denied {
    /// No function has this key.
    #[error("The security token included in the request is invalid: no function has the access key id {access_key_id}")]
    UnknownKey { access_key_id: String },
    /// No statement allows it, or one denies it.
    #[error(
        "User: arn:aws:sts::{ACCOUNT}:assumed-role/{caller} is not authorized to perform: {action} on resource: \
         {resource} \
         {}", if *.explicit { "with an explicit deny in an identity-based policy" } else { "because no identity-based \
         policy allows it" }
    )]
    NotAllowed {
        /// The function.
        caller: String,
        /// The action, such as `dynamodb:PutItem`.
        action: String,
        /// The resource's ARN.
        resource: String,
        /// Whether a Deny said so.
        explicit: bool,
    },
    /// It is not known what the request would do.
    #[error(
        "User: {caller} asks for {request}, which the permission check does not know; teach it the action and its \
         resource"
    )]
    UnknownRequest {
        /// The function.
        caller: String,
        /// `x-amz-target`, or the method and path.
        request: String,
    },
}

/// A permission that a function has used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Used {
    /// The function's name.
    pub function: String,
    /// Which of its statements, counted from 0.
    pub statement: usize,
    /// The action that was asked for.
    pub action: String,
    /// The statement's action pattern that allowed it.
    pub action_pattern: String,
    /// The statement's resource pattern that allowed it.
    pub resource_pattern: String,
}

/// A permission that a function has and did not use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("template.yaml:{line}: {function} may {action} on {resource}, and never did")]
pub struct Unused {
    /// The statement's line in the template.
    pub line: usize,
    /// The function's name.
    pub function: String,
    /// The action's pattern.
    pub action: String,
    /// The resource's pattern.
    pub resource: String,
}

/// Who may do what.
#[derive(Debug, Default)]
pub struct Policies {
    /// Functions by access key id.
    callers: BTreeMap<String, Caller>,
    /// Statements of roles, by ARN.
    roles: BTreeMap<String, Vec<Statement>>,
    websocket: Option<WebSocketApi>,
    /// Bounded by the template: one entry for each pattern and action, not for each resource.
    used: RwLock<BTreeSet<Used>>,
    /// What was allowed once: resources by caller and operation.
    allowed: RwLock<HashMap<String, HashMap<String, HashSet<String>>>>,
}

/// Resources that are remembered for one caller and operation.
const REMEMBERED: usize = 100;

#[derive(Debug)]
struct Caller {
    function: String,
    statements: Vec<Statement>,
}

impl Policies {
    /// The policies of a template.
    pub fn from_stack(stack: &Stack) -> Self {
        let callers = stack.functions.iter().map(|function| {
            let caller = Caller { function: function.name.clone(), statements: function.statements.clone() };
            (access_key_id(&function.name), caller)
        });
        Self {
            callers: callers.collect(),
            roles: stack.roles.iter().map(|role| (role.arn.clone(), role.statements.clone())).collect(),
            websocket: stack.websocket_api.clone(),
            used: RwLock::default(),
            allowed: RwLock::default(),
        }
    }

    /// Whether the owner of the key may send this request.
    pub fn authorize(&self, access_key_id: &str, request: &Request<Bytes>) -> Result<(), Denied> {
        if access_key_id == ROOT_ACCESS_KEY_ID {
            return Ok(());
        }
        let plain = requests::plain(request);
        if plain.as_ref().is_some_and(|plain| self.was_allowed(access_key_id, plain)) {
            return Ok(());
        }
        let Some(caller) = self.callers.get(access_key_id) else {
            return Err(Denied::UnknownKey { access_key_id: access_key_id.to_owned() });
        };
        let Some(needed) = requests::needed(request, self.websocket.as_ref()) else {
            return Err(Denied::UnknownRequest { caller: caller.function.clone(), request: described(request) });
        };
        // What depends on a condition is decided each time.
        let conditional =
            |access: &Access| caller.statements.iter().any(|statement| is_conditional(statement, &access.action));
        let plain = plain.filter(|_| !needed.iter().any(conditional));
        needed.into_iter().try_for_each(|access| self.check(caller, access))?;
        if let Some(plain) = plain {
            let mut allowed = self.allowed.write().unwrap_or_else(PoisonError::into_inner);
            let of_caller = allowed.entry(access_key_id.to_owned()).or_default();
            let resources = of_caller.entry(plain.target.to_owned()).or_default();
            if resources.len() < REMEMBERED {
                resources.insert(plain.resource.into_owned());
            }
        }
        Ok(())
    }

    fn was_allowed(&self, access_key_id: &str, plain: &requests::Plain<'_>) -> bool {
        let allowed = self.allowed.read().unwrap_or_else(PoisonError::into_inner);
        let resources = allowed.get(access_key_id).and_then(|of_caller| of_caller.get(plain.target));
        resources.is_some_and(|resources| resources.contains(plain.resource.as_ref()))
    }

    /// This check, for the endpoint that serves the engines.
    pub fn authorizer(self: &Arc<Self>) -> Authorizer {
        let policies = Arc::clone(self);
        Arc::new(move |access_key_id, request| policies.authorize(access_key_id, request))
    }

    fn check(&self, caller: &Caller, access: Access) -> Result<(), Denied> {
        let explicit = match decide(&caller.statements, &access) {
            Decision::Allowed { statement, action, resource } => {
                self.remember(Used {
                    function: caller.function.clone(),
                    statement,
                    action: access.action,
                    action_pattern: action.to_owned(),
                    resource_pattern: resource.to_owned(),
                });
                return Ok(());
            }
            Decision::NotAllowed => false,
            Decision::Denied => true,
        };
        let caller = caller.function.clone();
        Err(Denied::NotAllowed { caller, action: access.action, resource: access.resource, explicit })
    }

    fn remember(&self, used: Used) {
        // Nearly every request repeats one before it: those only read.
        if !self.used.read().unwrap_or_else(PoisonError::into_inner).contains(&used) {
            self.used.write().unwrap_or_else(PoisonError::into_inner).insert(used);
        }
    }

    /// What functions have used so far.
    pub fn used(&self) -> Vec<Used> {
        self.used.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// What the template grants functions in writing and is not in `used`; roles of services are not looked at.
    /// What SAM and AWS's managed policies add is the services' own business: Lambda polls queues and streams, and
    /// writes logs and traces, without a call of the function's.
    pub fn unused(&self, used: &BTreeSet<Used>) -> Vec<Unused> {
        let used: BTreeSet<_> = used
            .iter()
            .map(|used| (&used.function, used.statement, &used.action_pattern, &used.resource_pattern))
            .collect();
        let mut unused = Vec::new();
        for caller in self.callers.values() {
            for (index, statement) in caller.statements.iter().enumerate() {
                let Origin::Written(line) = statement.origin else { continue };
                if statement.effect != Effect::Allow {
                    continue;
                }
                for (action, resource) in
                    statement.actions.iter().flat_map(|action| statement.resources.iter().map(move |to| (action, to)))
                {
                    if !used.contains(&(&caller.function, index, action, resource)) {
                        let (function, action, resource) = (caller.function.clone(), action.clone(), resource.clone());
                        unused.push(Unused { line, function, action, resource });
                    }
                }
            }
        }
        unused.sort();
        unused
    }

    /// Whether a role may invoke a function: Scheduler asks before it fires. A qualifier at the end of the ARN does
    /// not count.
    pub fn role_may_invoke(&self, role_arn: &str, function_arn: &str) -> bool {
        // arn:aws:lambda:region:account:function:name[:qualifier]
        let plain: Vec<&str> = function_arn.splitn(8, ':').take(7).collect();
        self.role_may(role_arn, "lambda:InvokeFunction", &plain.join(":"))
    }

    /// Whether a role may send to a queue: Scheduler's dead-letter queue, for one.
    pub fn role_may_send(&self, role_arn: &str, queue_arn: &str) -> bool {
        self.role_may(role_arn, "sqs:SendMessage", queue_arn)
    }

    fn role_may(&self, role_arn: &str, action: &str, resource: &str) -> bool {
        self.roles.get(role_arn).is_some_and(|statements| allows(statements, action, resource))
    }
}

fn described(request: &Request<Bytes>) -> String {
    let target = request.headers().get("x-amz-target").and_then(|value| value.to_str().ok());
    target.map_or_else(|| format!("{} {}", request.method(), request.uri().path()), str::to_owned)
}
