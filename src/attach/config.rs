//! The exporter's configuration: read here and written as JSON, so that two readers of YAML cannot see two things, and
//! what could end the JVM is refused.
//!
//! Pure. All other keys of the exporter are passed on, known to us or not. Must not read anything.

use serde_json::{Map, Number, Value};
use serde_yaml::Value as Yaml;

/// So many bytes at most.
const LONGEST: usize = 64 << 10;

/// Keys that end the JVM, or turn the exporter into something else.
const REFUSED: [(&str, &str); 6] = [
    ("hostPort", "with it the exporter ends the JVM"),
    ("jmxUrl", "with it the exporter ends the JVM"),
    ("username", "it is for another JVM than the exporter's own"),
    ("password", "it is for another JVM than the exporter's own"),
    ("ssl", "it is for another JVM than the exporter's own"),
    ("httpServer", "Prometheus could not read the metrics"),
];

/// The configuration for the exporter, or why not, with the line.
pub fn checked(text: &str) -> Result<String, String> {
    if text.len() > LONGEST {
        return Err(format!("the configuration has {} bytes; at most {LONGEST} are taken", text.len()));
    }
    let yaml: Yaml = serde_yaml::from_str(text).map_err(|error| format!("the configuration is not YAML: {error}"))?;
    let Value::Object(config) = json(&yaml, text)? else {
        return Err("the configuration is not a mapping of keys to values, such as `rules: []`".to_owned());
    };
    for (key, why) in REFUSED {
        if config.contains_key(key) {
            return Err(format!("key {key}{} is refused: {why}; remove it", line(text, key)));
        }
    }
    let delay = config.get("startDelaySeconds").filter(|delay| delay.as_f64() != Some(0.0));
    if delay.is_some() {
        let key = "startDelaySeconds";
        return Err(format!("key {key}{} is refused: until it is over scrapes fail; remove it", line(text, key)));
    }
    serde_json::to_string(&config).map_err(|error| format!("the configuration cannot be written as JSON: {error}"))
}

fn json(yaml: &Yaml, text: &str) -> Result<Value, String> {
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => (*value).into(),
        Yaml::String(value) => value.clone().into(),
        Yaml::Number(number) => {
            let float = || number.as_f64().and_then(Number::from_f64);
            let whole = number.as_i64().map(Number::from).or_else(|| number.as_u64().map(Number::from));
            whole.or_else(float).map(Value::Number).ok_or_else(|| format!("{number} is no number for the exporter"))?
        }
        Yaml::Sequence(items) => items.iter().map(|item| json(item, text)).collect::<Result<_, _>>()?,
        Yaml::Mapping(entries) => {
            let mut object = Map::new();
            for (key, value) in entries {
                let Yaml::String(key) = key else { return Err(format!("a key must be text, and one is {key:?}")) };
                if key == "<<" {
                    return Err(format!("the merge key <<{} is refused: write what it merges", line(text, "<<")));
                }
                object.insert(key.clone(), json(value, text)?);
            }
            Value::Object(object)
        }
        Yaml::Tagged(tagged) => return Err(format!("the tag {} is refused; remove it", tagged.tag)),
    })
}

/// The position of a key, in words.
fn line(text: &str, key: &str) -> String {
    let names_it = |line: &str| {
        let start = line.trim_start().trim_start_matches("- ").trim_start_matches(['"', '\'', '{', ' ']);
        start.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    text.lines().position(names_it).map(|index| format!(" (line {})", index + 1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_or_not_is_passed_on_as_json() {
        let text = "lowercaseOutputName: true\nrules:\n- pattern: '.*'\n  name: a_$1\n  value: 1.5\n\
            unknown: {a: [1, x]}\n";
        let rules = r#""rules":[{"name":"a_$1","pattern":".*","value":1.5}]"#;
        let wanted = format!(r#"{{"lowercaseOutputName":true,{rules},"unknown":{{"a":[1,"x"]}}}}"#);
        assert_eq!(checked(text).unwrap(), wanted);
        assert_eq!(checked("startDelaySeconds: 0").unwrap(), r#"{"startDelaySeconds":0}"#);
    }

    #[test]
    fn what_could_end_the_jvm_is_refused_with_its_line() {
        for (text, wanted) in [
            ("rules: []\nhostPort: a:1\n", "key hostPort (line 2) is refused"),
            ("hostPort:\n", "key hostPort (line 1) is refused"),
            ("hostPort: ''\n", "key hostPort (line 1) is refused"),
            ("\"jmxUrl\": x", "key jmxUrl (line 1) is refused"),
            ("{jmxUrl: x}", "key jmxUrl (line 1) is refused"),
            ("rules: []\nssl: false", "key ssl (line 2) is refused"),
            ("httpServer: {}", "key httpServer"),
            ("username: a", "key username"),
            ("password: a", "key password"),
            ("startDelaySeconds: 5", "key startDelaySeconds (line 1) is refused"),
            ("startDelaySeconds: '5'", "key startDelaySeconds"),
            ("base: &b {hostPort: x}\n<<: *b\n", "the merge key << (line 2) is refused"),
            ("rules:\n- {<<: {a: 1}}", "the merge key <<"),
            ("rules: !x [1]", "the tag !x is refused"),
            ("rules: []\nrules: []", "duplicate"),
            ("rules:\n- a: 1\n  a: 2", "duplicate"),
            ("- rules", "is not a mapping"),
            ("", "is not a mapping"),
            ("just words", "is not a mapping"),
            ("a: [", "is not YAML"),
            ("a: 1\n---\nb: 2", "is not YAML"),
            ("1: 2", "a key must be text"),
            ("a: .inf", "no number for the exporter"),
        ] {
            let said = checked(text).unwrap_err();
            assert!(said.contains(wanted), "{text:?}: {said}");
        }
        assert!(checked(&format!("a: {}", "x".repeat(LONGEST))).unwrap_err().contains("at most 65536"));
    }
}
