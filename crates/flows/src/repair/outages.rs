//! Which providers do not answer in this run, so that they are not asked for every order: each unanswered call
//! costs seconds.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::order::Order;
use domain::payment::Method;

use crate::FlowError;

/// After so many unanswered calls in one run, the provider's remaining orders are postponed to the next run.
const MAX_UNANSWERED: u32 = 16;

/// Unanswered calls of this run, by payment method.
#[derive(Debug, Default)]
pub(super) struct ProviderOutages {
    outages: Mutex<BTreeMap<Method, Outage>>,
}

#[derive(Debug, Default)]
struct Outage {
    unanswered: u32,
    postponed: u32,
}

impl ProviderOutages {
    /// Whether to ask the provider of an order's open payment, if it has one. An order for which it is not asked
    /// is counted as postponed.
    pub(super) fn should_ask(&self, order: Option<&Order>) -> bool {
        let open = order.and_then(|order| order.attempts.get(usize::from(order.payment.as_ref()?.attempt)));
        open.is_none_or(|attempt| self.should_ask_method(attempt.method))
    }

    /// Whether to ask a provider. What it is not asked for is counted as postponed.
    pub(super) fn should_ask_method(&self, method: Method) -> bool {
        match self.lock().get_mut(&method) {
            Some(outage) if outage.unanswered >= MAX_UNANSWERED => {
                outage.postponed += 1;
                false
            }
            _ => true,
        }
    }

    /// Counts a call that was not answered. A refusal is an answer: it comes at once and says nothing about other
    /// orders.
    pub(super) fn record(&self, error: &FlowError) {
        if let FlowError::Provider { method, trouble } = error
            && trouble.may_pass()
        {
            self.lock().entry(*method).or_default().unanswered += 1;
        }
    }

    /// One line for each provider whose orders were postponed.
    pub(super) fn postponed_orders(&self) -> Vec<String> {
        let outages = self.lock();
        let postponed = outages.iter().map(|(method, outage)| (method, outage.postponed));
        postponed
            .filter(|(_, count)| *count > 0)
            .map(|(method, count)| {
                format!("{method} does not answer: {count} orders and refunds are left for the next run")
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Method, Outage>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
