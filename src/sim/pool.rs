//! Pools: nodes that are alike, and how long a new Pod takes on them.
//!
//! Must not know what a Pod is for.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::span::Span;

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// Its name. Its nodes are called NAME-0, NAME-1, and so on.
    pub name: String,
    /// How many nodes it has at the beginning.
    pub count: usize,
    /// Value of label topology.kubernetes.io/zone of its nodes. Default: the name of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// More labels of its nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints of its nodes, each as key:Effect or key=value:Effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// How long a new Pod takes to become Ready on its nodes. Default: 60s.
    #[serde(default = "Times::usual")]
    pub time_to_ready: Times,
}

impl Pool {
    /// One that is called as its zone, whose Pods are Ready after a few seconds.
    #[must_use]
    pub fn of_zone(zone: &str, count: usize) -> Self {
        Self {
            name: zone.to_owned(),
            count,
            zone: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            time_to_ready: Times::Always(Span::seconds(5)),
        }
    }

    /// The zone of its nodes.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.as_deref().unwrap_or(&self.name)
    }
}

/// How long something takes: always the same, or spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", untagged)]
pub enum Times {
    Always(Span),
    Spread(Spread),
}

/// Quantiles. Between two of them every time is as likely as another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spread {
    /// The shortest. Default: half of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Span>,
    /// Half of them take no longer.
    pub median: Span,
    /// Of a hundred 95 take no longer. Default: twice the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Span>,
    /// The longest. Default: twice p95.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
}

impl Spread {
    /// Shortest, median, 95th percentile and longest, in seconds.
    fn seconds(&self) -> [i64; 4] {
        let median = self.median.0.num_seconds();
        let given = |span: Option<Span>, default: i64| span.map_or(default, |span| span.0.num_seconds());
        let p95 = given(self.p95, median * 2);
        [given(self.min, median / 2), median, p95, given(self.max, p95 * 2)]
    }
}

impl Times {
    /// What a pool has that says nothing; `plan` assumes the same where no Pod shows it.
    #[must_use]
    pub fn usual() -> Self {
        Self::Always(Span::seconds(60))
    }

    /// The time of which this share takes no longer, in seconds, at least 1.
    #[must_use]
    pub fn at(&self, share: f64) -> i64 {
        let seconds = match self {
            Self::Always(span) => span.0.num_seconds(),
            Self::Spread(spread) => {
                let [min, median, p95, max] = spread.seconds();
                let between = |from: i64, to: i64, part: f64| from + ((to - from) as f64 * part).round() as i64;
                match share {
                    share if share < 0.5 => between(min, median, share / 0.5),
                    share if share < 0.95 => between(median, p95, (share - 0.5) / 0.45),
                    share => between(p95, max, (share - 0.95) / 0.05),
                }
            }
        };
        seconds.max(1)
    }
}

impl TryFrom<Value> for Times {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        if let Value::String(text) = value {
            return Span::try_from(text).map(Self::Always);
        }
        let spread: Spread = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if spread.seconds().is_sorted() {
            Ok(Self::Spread(spread))
        } else {
            Err("min, median, p95 and max must not decrease".to_owned())
        }
    }
}

impl JsonSchema for Times {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Times".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let spread = generator.subschema_for::<Spread>();
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, spread] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_lie_where_their_quantiles_say() {
        let times: Times = serde_json::from_value(json!({ "median": "20s", "p95": "1m" })).unwrap();
        let at = |share| times.at(share);
        assert_eq!([at(0.0), at(0.25), at(0.5), at(0.95), at(1.0)], [10, 15, 20, 60, 120]);
        let always: Times = serde_json::from_value(json!("30s")).unwrap();
        assert_eq!((always.at(0.0), always.at(1.0)), (30, 30));
    }

    #[test]
    fn times_that_cannot_be_are_refused_with_their_cause() {
        let wrong = |value| serde_json::from_value::<Times>(value).unwrap_err().to_string();
        assert!(wrong(json!({ "median": "20s", "p95": "1s" })).contains("must not decrease"));
        assert!(wrong(json!({ "mean": "20s" })).contains("unknown field `mean`"));
        assert!(wrong(json!("soon")).contains("is not a time such as"));
    }
}
