// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows of sweep.csv and sweep.parquet: one for each scheme of each piece, with every counter
//! that any scheme has.

use std::collections::BTreeMap;

use super::table::{Point, seed};

/// One scheme of one piece.
pub struct Row<'a> {
    /// Each key with its value.
    pub keys: &'a [(String, String)],
    pub seed: u64,
    pub scheme: &'a str,
    /// In the order of the columns; `None` where the scheme does not have the measure.
    pub measures: Vec<Option<i64>>,
}

/// All rows, and what their columns are called.
pub struct Rows<'a> {
    /// `seed` and `scheme` stand behind them.
    pub keys: Vec<&'a str>,
    /// The last columns, in the order of first appearance.
    pub measures: Vec<&'a str>,
    pub rows: Vec<Row<'a>>,
}

impl<'a> Rows<'a> {
    pub fn new(points: &'a [Point<'a>]) -> Self {
        let mut measures: Vec<&str> = Vec::new();
        let mut place = BTreeMap::new();
        let all = points.iter().flat_map(Point::rows);
        for metric in all.flat_map(|(_, one)| &one.metrics) {
            place.entry(metric.name.as_str()).or_insert_with(|| {
                measures.push(&metric.name);
                measures.len() - 1
            });
        }
        let mut rows = Vec::new();
        for point in points {
            for (scheme, one) in point.rows() {
                let mut values = vec![None; measures.len()];
                for metric in &one.metrics {
                    values[place[metric.name.as_str()]] = Some(metric.value);
                }
                rows.push(Row {
                    keys: point.keys,
                    seed: seed(one),
                    scheme,
                    measures: values,
                });
            }
        }
        let keys = points.first().map_or(&[][..], |point| point.keys);
        Self {
            keys: keys.iter().map(|(key, _)| key.as_str()).collect(),
            measures,
            rows,
        }
    }

    /// A line for each row, below one of names. A measure that a scheme does not have is empty.
    pub fn csv(&self) -> String {
        let names = self.keys.iter().copied().chain(["seed", "scheme"]);
        let head = names.chain(self.measures.iter().copied());
        let mut text = head.map(field).collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let values = row.keys.iter().map(|(_, value)| field(value));
            let values = values.chain([row.seed.to_string(), field(row.scheme)]);
            let measures = row.measures.iter();
            let measures = measures.map(|one| one.map_or(String::new(), |one| one.to_string()));
            text += &(values.chain(measures).collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }
}

/// A field as RFC 4180 has it.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(field("native"), "native");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
