//! Quantities: `1.5Gi`, `300m`, as Kubernetes writes amounts.
//!
//! Pure. Must not know what is measured.

/// A Kubernetes quantity as a number; `None` when it is none.
#[must_use]
pub fn quantity(text: &str) -> Option<f64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
    let (number, suffix) = match split {
        // 1e3, 1E3: an exponent; a bare E is exa.
        Some(at) if text[at..].starts_with(['e', 'E']) && text.len() > at + 1 => (text, ""),
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let number: f64 = number.parse().ok().filter(|n: &f64| n.is_finite())?;
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_kubernetes_reads_them() {
        for (text, value) in [
            ("1", 1.0),
            ("100m", 0.1),
            ("1Ki", 1024.0),
            ("1e3", 1000.0),
            ("1E", 1e18),
            ("2.5Gi", 2.5 * 1024.0 * 1024.0 * 1024.0),
            ("-1", -1.0),
        ] {
            assert!((quantity(text).unwrap() - value).abs() < 1e-6, "{text}");
        }
        for text in ["", "x", "1x", "1.5.2", "Gi", "1 Gi", "inf", "NaN"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }
}
