// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a whole is made of: one bar per variant, cut into parts, all on one scale.

use super::scale::Linear;
use super::{Anchor, Canvas, Tenths, colour, fitted, text_width};

/// One whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The variant's name.
    pub label: String,
    /// The whole in words.
    pub text: String,
    /// For each of the parts its size, and the size in words.
    pub parts: Vec<(u64, String)>,
}

const ROW: Tenths = 470;
const BASELINE: Tenths = 120;
const BAR_TOP: Tenths = 180;
const BAR_HEIGHT: Tenths = 200;
const LEGEND_ROW: Tenths = 190;
const SWATCH: Tenths = 100;

/// Draws the wholes, one below the other, and a legend of the parts' names.
#[must_use]
pub fn draw(id: &str, title: &str, names: &[String], stacks: &[Stack], width: Tenths) -> String {
    let sums = stacks.iter().map(|stack| {
        let sizes = stack.parts.iter().map(|&(size, _)| size);
        sizes.fold(0_u64, u64::saturating_add)
    });
    let scale = Linear::new(sums.max().unwrap_or(0), width);
    let mut canvas = Canvas::new();
    let mut top = 0;
    for stack in stacks {
        let room = width - text_width(&stack.text) - 100;
        let label = fitted(&stack.label, room);
        canvas.text("name", (0, top + BASELINE), Anchor::Start, &label);
        canvas.number((width, top + BASELINE), &stack.text, "");
        canvas.rect("track", (0, top + BAR_TOP), (width, BAR_HEIGHT), "");
        parts(&mut canvas, names, stack, &scale, top);
        top += ROW;
    }
    let height = legend(&mut canvas, names, top, width);
    let said: Vec<String> = stacks.iter().map(|stack| said(names, stack)).collect();
    canvas.finish(id, (width, height), title, &said.join("; "))
}

fn parts(canvas: &mut Canvas, names: &[String], stack: &Stack, scale: &Linear, top: Tenths) {
    let mut before = 0_u64;
    for (at, (name, (size, text))) in names.iter().zip(&stack.parts).enumerate() {
        let from = scale.place(before);
        before = before.saturating_add(*size);
        let length = scale.place(before) - from;
        if *size == 0 {
            continue;
        }
        let place = (from, top + BAR_TOP);
        let tip = format!("{}, {name}: {text}", stack.label);
        let fill = format!("part {}", colour('c', at));
        canvas.rect(&fill, place, (length, BAR_HEIGHT), &tip);
        if text_width(name) + 80 <= length {
            let middle = (from + length / 2, top + BAR_TOP + 140);
            canvas.text("inside", middle, Anchor::Middle, name);
        }
    }
}

/// Draws the legend below `top` and returns where it ends.
fn legend(canvas: &mut Canvas, names: &[String], top: Tenths, width: Tenths) -> Tenths {
    let (mut x, mut y) = (0, top + 20);
    for (at, name) in names.iter().enumerate() {
        let shown = fitted(name, width - SWATCH - 60);
        let wide = SWATCH + 60 + text_width(&shown);
        if x > 0 && x + wide > width {
            x = 0;
            y += LEGEND_ROW;
        }
        let fill = format!("part {}", colour('c', at));
        canvas.rect(&fill, (x, y), (SWATCH, SWATCH), "");
        canvas.text("name", (x + SWATCH + 60, y + 100), Anchor::Start, &shown);
        x += wide + 120;
    }
    y + LEGEND_ROW
}

fn said(names: &[String], stack: &Stack) -> String {
    let parts: Vec<String> = names
        .iter()
        .zip(&stack.parts)
        .filter(|(_, (size, _))| *size > 0)
        .map(|(name, (_, text))| format!("{name} {text}"))
        .collect();
    format!("{} {}: {}", stack.label, stack.text, parts.join(", "))
}
