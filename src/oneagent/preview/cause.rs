//! What must be corrected before a plan can come true, as the status of the OneAgent says it.
//!
//! Here because only the operator has asked the environment. Pure; must not word anything.

use crate::api::oneagent::OneAgent;
use crate::api::oneagent::condition::{ConditionType, Reason};

/// The message of the condition that says it; `asks`: whether versions come from the environment.
pub(super) fn first_cause(agent: &OneAgent, asks: bool) -> Option<String> {
    let conditions = &agent.status.as_ref()?.conditions;
    let is = |type_: ConditionType, status: &str| {
        let type_ = type_.to_string();
        conditions.iter().find(|condition| condition.type_ == type_ && condition.status == status)
    };
    let token = is(ConditionType::PaasToken, "False").filter(|_| asks);
    let is_away = Reason::EnvironmentUnreachable.to_string();
    let away = is(ConditionType::Degraded, "True").filter(|condition| condition.reason == is_away);
    token.or(away).map(|condition| condition.message.clone())
}
