// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which kernel each variant boots, what is refused of it, and what the result says of it.

use std::fs;
use std::path::Path;

use steady_lab_artifacts::kernel::port::PORTS;

use super::*;

/// A scenario of two VMs and these variants: a name and what is written below it.
fn scenario(folder: &Path, of_vm: &str, variants: &[(&str, &str)]) -> Scenario {
    let vm = |name: &str, more: &str| {
        format!(
            "[[vm]]\nname = \"{name}\"\nvcpus = 1\nmemory_mib = 96\n{more}\n[[vm.workload]]\n\
             program = \"shootdown\"\n"
        )
    };
    let mut text = format!(
        "schema = 2\nname = \"s\"\ntitle = \"t\"\nquestion = \"q\"\n[host]\npcpus = 2\n\
         memory_mib = 512\n{}{}",
        vm("a", ""),
        vm("b", of_vm)
    );
    for (name, more) in variants {
        text += &format!("[[variant]]\nname = \"{name}\"\n{more}\n");
    }
    let mut scenario = Scenario::parse(&text, "s.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    folder.clone_into(&mut scenario.folder);
    scenario
}

fn options(kernel: Option<&str>, trace: bool) -> Options {
    Options {
        kernel: kernel.map(str::to_owned),
        trace,
        ..Options::default()
    }
}

/// What is said of all variants; empty where nothing is refused.
fn said(scenario: &Scenario, options: &Options) -> String {
    let variants: Vec<&Variant> = scenario.variants.iter().collect();
    let refused = check(scenario, &variants, options).err();
    refused.map(|error| error.to_string()).unwrap_or_default()
}

fn config_of(scenario: &Scenario, kernel: Option<&str>) -> BTreeMap<String, String> {
    let variants: Vec<&Variant> = scenario.variants.iter().collect();
    let all = kernels(scenario, &variants, &options(kernel, false)).expect("known kernels");
    config(scenario, &all)
}

/// The folder of a kernel's objects, with this configuration.
fn objects(folder: &Path, config: &str) {
    let config = &format!("CONFIG_KVM=y\nCONFIG_KVM_INTEL=y\n{config}");
    for (path, text) in [
        ("arch/x86/boot/bzImage", "image"),
        ("System.map", "ffffffff81000000 T _text\n"),
        (".config", config),
        ("include/config/kernel.release", "6.12.1"),
    ] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
}

#[test]
fn a_variant_boots_the_kernel_that_it_names_and_the_others_that_of_the_option() {
    let own = [
        ("x", ""),
        ("old", "kernel = \"debian-12\""),
        ("as-old", "kernel = \"debian-12\"\nhypervisor = \"hyper-v\""),
        ("bare", "kernel = \"stock\""),
    ];
    let made = scenario(Path::new(""), "", &own);
    let variants: Vec<&Variant> = made.variants.iter().collect();
    for option in [None, Some("hz-1000")] {
        let all = kernels(&made, &variants, &options(option, false)).expect("known kernels");
        let found: Vec<(String, String, Vec<&str>)> = all
            .iter()
            .map(|one| {
                let names = one.variants.iter().map(|variant| variant.name.as_str());
                (one.id.keys().0, one.choice.to_string(), names.collect())
            })
            .collect();
        let by_option = option.unwrap_or("lab").to_owned();
        let named = ("kernel.debian-12", "debian-12", vec!["old", "as-old"]);
        assert_eq!(
            found,
            [
                ("kernel.stock", by_option.as_str(), vec!["bare"]),
                ("kernel", by_option.as_str(), vec!["x"]),
                named,
            ]
            .map(|(key, choice, names)| (key.to_owned(), choice.to_owned(), names))
        );
    }
}

#[test]
fn a_kernel_that_is_not_known_or_not_there_is_refused_and_the_known_ones_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    objects(&folder.path().join("built"), "");
    fs::write(folder.path().join("mine.deb"), "!<arch>\n").expect("written");
    let here = folder.path().display().to_string();
    for (kernel, words) in [
        ("debian-13-backports", vec![]),
        ("./mine.deb", vec![]),
        ("./built", vec![]),
        (
            "stokc",
            vec![
                "the kernel of variant x; ",
                "`stokc`",
                "debian-12, ",
                "7.3",
                "stock",
            ],
        ),
        (
            "./no.deb",
            vec!["variant x", "cannot be read", &here, "no.deb"],
        ),
        (
            "no/folder",
            vec![
                "variant x",
                "no built kernel",
                &here,
                "arch/x86/boot/bzImage",
            ],
        ),
    ] {
        let own = format!("kernel = \"{kernel}\"");
        let made = scenario(folder.path(), "", &[("x", &own)]);
        let said = said(&made, &options(None, false));
        assert_eq!(said.is_empty(), words.is_empty(), "{kernel}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

/// A package of ours has them, and what is in it shows once it is unpacked.
#[test]
fn remedies_that_a_package_lacks_are_refused_once_it_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("mine.deb"), "!<arch>\n").expect("written");
    let own = "kernel = \"./mine.deb\"\nshoot4u = {}";
    let made = scenario(folder.path(), "", &[("x", own)]);
    let (variants, options) = ([&made.variants[0]], options(None, false));
    check(&made, &variants, &options).expect("it is not unpacked yet");
    let all = kernels(&made, &variants, &options).expect("kernels");
    for (config, has) in [("", false), ("CONFIG_KVM_SHOOT4U=y\n", true)] {
        objects(&folder.path().join("unpacked"), config);
        let kernel = kernel::given(&folder.path().join("unpacked")).expect("a kernel");
        let said = all[0].check_remedies(&made, &kernel);
        assert_eq!(said.is_ok(), has, "{said:?}");
    }
}

#[test]
fn remedies_and_traces_that_a_named_kernel_lacks_are_refused_of_its_own_variants_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    objects(&folder.path().join("bare"), "");
    let on = "shoot4u = {}";
    for (kernel, named, beside, trace, words) in [
        ("debian-12", "", on, true, ""),
        ("debian-12", on, "", false, "shoot4u of variant named"),
        ("7.3", on, "kernel = \"stock\"", true, ""),
        ("6.1", on, "", false, "it is not in kernel 6.1"),
        ("6.1", "", on, false, ""),
        (
            "6.1",
            "",
            "",
            true,
            "kernel 6.1 has none; leave out --trace",
        ),
        ("./bare", on, "", false, "not in `kernel = \"./bare\"`"),
        ("./bare", "", on, true, ""),
    ] {
        let named = format!("kernel = \"{kernel}\"\n{named}");
        let both = [("named", named.as_str()), ("beside", beside)];
        let said = said(&scenario(folder.path(), "", &both), &options(None, trace));
        assert_eq!(said.is_empty(), words.is_empty(), "{named}: {said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn vms_that_a_named_kernel_cannot_have_are_refused_of_its_own_variants_alone() {
    let without = "without = [\"b\"]";
    for (of_vm, kernel, named, words) in [
        ("disk_mib = 16", "debian-12", "", "disk of VM b"),
        ("disk_mib = 16", "debian-12", without, ""),
        ("disk_mib = 16", "7.3", "", ""),
        (
            "kernel = \"power\"",
            "7.3",
            "",
            "`kernel = \"7.3\"` is one kernel",
        ),
        ("kernel = \"power\"", "7.3", without, ""),
    ] {
        let named = format!("kernel = \"{kernel}\"\n{named}");
        let both = [("named", named.as_str()), ("beside", "")];
        let said = said(
            &scenario(Path::new(""), of_vm, &both),
            &options(None, false),
        );
        assert_eq!(said.is_empty(), words.is_empty(), "{named}: {said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn the_option_is_refused_of_the_variants_that_boot_its_kernel_and_where_there_are_none() {
    let port = PORTS.iter().find(|port| port.version == "7.3");
    assert!(port.is_some_and(|port| port.has_remedies));
    let debian = ("new", "kernel = \"debian-13\"");
    for (option, beside, words) in [
        ("7.3", ("x", ""), ""),
        (
            "7.3",
            ("x", "kernel = \"stock\""),
            "variant x; --kernel 7.3 is one kernel",
        ),
        ("debian-12", ("x", "shoot4u = {}"), "shoot4u of variant x"),
        (
            "7.3",
            ("x", "kernel = \"6.1\""),
            "--kernel 7.3; each variant names a kernel",
        ),
        ("dbug", ("x", ""), "there is no kernel `dbug`"),
    ] {
        let made = scenario(Path::new(""), "", &[debian, beside]);
        let said = said(&made, &options(Some(option), false));
        assert_eq!(
            said.is_empty(),
            words.is_empty(),
            "{option}, {beside:?}: {said}"
        );
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_host_has_more_memory_where_its_own_kernel_is_a_distributions() {
    let of = |variants: &[(&str, &str)], option| {
        let config = config_of(&scenario(Path::new(""), "", variants), option);
        let pairs = config
            .into_iter()
            .map(|(key, value)| format!("{key} {value}"));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let (plain, named) = (("x", ""), ("old", "kernel = \"debian-12\""));
    let port = ("port", "kernel = \"7.3\"");
    assert_eq!(of(&[plain], None), "memory_mib 512");
    // Three machines, a host and two guests, of 96 MiB more each.
    let all_packaged = "kernel.choice debian-13, memory_mib 800";
    assert_eq!(of(&[plain], Some("debian-13")), all_packaged);
    let beside = "kernel.debian-12.memory_mib 800, memory_mib 512";
    for variants in [&[plain, named, port][..], &[named]] {
        assert_eq!(of(variants, None), beside);
    }
}

#[test]
fn a_guests_own_kernel_is_on_the_hosts_that_have_the_guest() {
    let own = [
        ("x", ""),
        ("bare", "kernel = \"stock\"\nwithout = [\"b\"]"),
        ("old", "kernel = \"debian-12\"\nwithout = [\"b\"]"),
        ("new", "kernel = \"debian-13\""),
    ];
    let made = scenario(Path::new(""), "kernel = \"power\"", &own);
    let variants: Vec<&Variant> = made.variants.iter().collect();
    let all = kernels(&made, &variants, &options(None, false)).expect("known kernels");
    let found = all.iter().map(|one| (one.id.keys().0, one.flavors.len()));
    let expected = [
        ("kernel.stock", 1),
        ("kernel", 1),
        ("kernel.debian-12", 0),
        ("kernel.debian-13", 1),
    ];
    let expected = expected.map(|(key, count)| (key.to_owned(), count));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn each_named_kernel_that_is_damaged_is_a_need_that_is_not_met() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home {
        project: folder.path().join("project"),
        cache: folder.path().join("cache"),
    };
    let names = ["debian-12", "debian-13"];
    let own = names.map(|name| (name, format!("kernel = \"{name}\"")));
    let own = [0, 1].map(|at| (own[at].0, own[at].1.as_str()));
    let made = scenario(Path::new(""), "", &own);
    let variants: Vec<&Variant> = made.variants.iter().collect();
    let all = kernels(&made, &variants, &options(None, false)).expect("known kernels");
    for name in names {
        fs::create_dir_all(home.cache.join(format!("kernel-{name}"))).expect("made");
    }
    let needs: Vec<Need> = all.iter().flat_map(|one| one.needs(&home)).collect();
    for name in names {
        let wanted = format!("the kernel's package of {name}");
        let package = needs.iter().find(|need| need.name == wanted);
        assert!(package.is_some_and(|need| !need.lets_go_on()), "{needs:?}");
    }
}

#[test]
fn the_kernel_of_a_release_is_one_and_a_package_that_a_user_names_is_not() {
    let names = [
        "debian-12",
        "debian-13-backports",
        "./image.deb",
        "7.3",
        "lab",
    ];
    let is_one = names.map(|name| is_release(&name.parse().expect("a kernel")));
    assert_eq!(is_one, [true, true, false, false, false]);
}
