// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Crosses variants with settings: one variant of the scenario for each pair, the settings
//! outermost. Without settings the variants are as they are written.

use super::names::Names;
use super::setting::Setting;
use super::value::{Problems, Span};
use super::variant::VariantRead;
use crate::limits::{LIST_ITEMS, NAME_CHARS, TITLE_CHARS};
use crate::variant::Variant;

/// A variant of the scenario, with the place of the name that it has in the file.
#[derive(Debug)]
pub(super) struct Crossed {
    pub name: Span,
    pub variant: Variant,
}

/// Every variant of the scenario, if all that were `read` are right.
pub(super) fn cross(
    read: &[VariantRead],
    settings: &[Setting],
    vms: &Names,
    problems: &Problems,
) -> Option<Vec<Crossed>> {
    let all: Option<Vec<Pair<'_>>> = read.iter().map(|read| pair(read, settings)).collect();
    let all = all?;
    if settings.is_empty() {
        let plain = |pair: &Pair<'_>| Crossed {
            name: pair.read.span(),
            variant: pair.variant.clone(),
        };
        return Some(all.iter().map(plain).collect());
    }
    let mut crossed: Vec<Crossed> = Vec::new();
    for setting in settings {
        let before = crossed.len();
        for pair in all.iter().filter(|pair| pair.is_in(setting)) {
            let variant = pair.in_setting(setting, vms, problems);
            if crossed
                .iter()
                .any(|other| other.variant.name == variant.name)
            {
                let message = format!("a second variant is named `{}`", variant.name);
                let label = format!("with setting `{}`; choose another name", setting.name());
                problems.add(pair.read.span(), message, label);
            }
            let name = pair.read.span();
            crossed.push(Crossed { name, variant });
        }
        if crossed.len() == before {
            let message = format!("no variant is in setting `{}`", setting.name());
            let label = "remove it, or list it in a variant's `settings`";
            problems.add(setting.name.span(), message, label);
        }
    }
    if crossed.len() > LIST_ITEMS {
        let message = format!("the variants are {} with their settings", crossed.len());
        let label = format!("expected at most {LIST_ITEMS}");
        problems.add(settings[0].name.span(), message, label);
    }
    Some(crossed)
}

impl Setting {
    fn name(&self) -> &str {
        self.name.get_ref()
    }
}

/// A variant with the settings that it is crossed with.
#[derive(Debug)]
struct Pair<'a> {
    read: &'a VariantRead,
    variant: &'a Variant,
    settings: Vec<&'a str>,
}

/// `None` if the variant is wrong.
fn pair<'a>(read: &'a VariantRead, settings: &'a [Setting]) -> Option<Pair<'a>> {
    let listed = read.settings.as_ref()?;
    Some(Pair {
        read,
        variant: read.variant.as_ref()?,
        settings: match listed {
            Some(listed) => listed.iter().map(String::as_str).collect(),
            None => settings.iter().map(Setting::name).collect(),
        },
    })
}

impl Pair<'_> {
    fn is_in(&self, setting: &Setting) -> bool {
        self.settings.contains(&setting.name())
    }

    /// The variant in this setting.
    fn in_setting(&self, setting: &Setting, vms: &Names, problems: &Problems) -> Variant {
        let mut variant = self.variant.clone();
        variant.name = format!("{}-{}", self.variant.name, setting.name());
        variant.title = title(self.variant, setting);
        let more = setting.without.iter();
        let more = more.filter(|vm| !self.variant.without.contains(vm));
        variant.without.extend(more.cloned());
        let switches = self
            .read
            .switches
            .with(setting.name(), &setting.switches, problems);
        variant.switches = switches.resolved();
        self.check(&variant, setting, vms, problems);
        variant
    }

    /// Reports what only the two together are wrong in.
    fn check(&self, variant: &Variant, setting: &Setting, vms: &Names, problems: &Problems) {
        let refuse = |message: String, label: &str| {
            problems.add(self.read.span(), message, label);
        };
        for (key, text, most) in [
            ("name", Some(&variant.name), NAME_CHARS),
            ("title", variant.title.as_ref(), TITLE_CHARS),
        ] {
            let chars = text.map_or(0, |text| text.chars().count());
            if chars > most {
                let with = format!("`{key}` with that of setting `{}`", setting.name());
                let label = format!("expected at most {most}");
                refuse(format!("{with} has {chars} characters"), &label);
            }
        }
        let gone = |vm: &&String| setting.without.contains(vm);
        let listed = variant
            .remedies
            .iter()
            .flat_map(|on| on.vms.iter().flatten());
        for vm in listed.chain(variant.vms.keys()).filter(gone) {
            let label = "leave the setting out of `settings`, or the VM out of the variant";
            refuse(
                format!("VM `{vm}` is not there in setting `{}`", setting.name()),
                label,
            );
        }
        if vms.leaves_none(&variant.without) {
            let label = "leave at least one VM that is not in the background";
            refuse(
                format!("no measured VM is left in setting `{}`", setting.name()),
                label,
            );
        }
    }
}

/// Both titles, a name where one has none; none where neither has one.
fn title(variant: &Variant, setting: &Setting) -> Option<String> {
    let (own, of) = (variant.title.as_deref(), setting.title.as_deref());
    own.or(of)?;
    let (own, of) = (own.unwrap_or(&variant.name), of.unwrap_or(setting.name()));
    Some(format!("{own}, {of}"))
}
