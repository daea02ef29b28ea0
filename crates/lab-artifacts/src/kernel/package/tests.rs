// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which packages are kernels, and what is taken out of them.

use std::process::Command;

use steady_race::Silent;

use super::*;
use crate::cache::sums::least_image;

/// A module as far as its `.modinfo` goes.
fn module(depends: &str) -> Vec<u8> {
    format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0").into_bytes()
}

#[test]
fn a_configuration_is_of_the_release_in_its_name_or_folder() {
    for (path, release) in [
        ("/t/boot/config-6.1.0-50-amd64", Some("6.1.0-50-amd64")),
        ("/t/usr/lib/modules/7.3.4/config", Some("7.3.4")),
        ("/t/usr/share/doc/config", None),
    ] {
        let files = [PathBuf::from("/t/boot/vmlinuz-1"), PathBuf::from(path)];
        let found = config(&files).map(|(_, release)| release);
        assert_eq!(found.as_deref(), release, "{path}");
    }
}

#[test]
fn modules_stand_behind_those_that_they_depend_on_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let packed = zstd::encode_all(&module("irqbypass")[..], 0).unwrap();
    let files = [
        put("kvm-intel.ko", &module("kvm")),
        put("kvm-amd.ko", &module("kvm,ccp")),
        put("kvm.ko.zst", &packed),
        put("irqbypass.ko", &module("")),
        put("ccp.ko", &module("")),
        put("ext4.ko", &module("mbcache")),
        put("vmlinuz-6.1", b"image"),
    ];
    let found = modules(&files).unwrap();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["irqbypass", "kvm", "kvm_intel", "ccp", "kvm_amd"]);
    assert_eq!(found[1].1, module("irqbypass"), "it is unpacked");
}

/// A package with these files.
fn deb(place: &Path, files: &[(&str, &[u8])]) -> PathBuf {
    let root = place.join("root");
    let control = b"Package: linux\nVersion: 1\nArchitecture: all\nMaintainer: x\n";
    let all = files
        .iter()
        .copied()
        .chain([("DEBIAN/control", &control[..])]);
    for (name, bytes) in all {
        write(&root.join(name), bytes).unwrap();
    }
    let deb = place.join("kernel.deb");
    let built = Command::new("dpkg-deb")
        .arg("--build")
        .args([&root, &deb])
        .output();
    assert!(built.unwrap().status.success());
    fs::remove_dir_all(&root).unwrap();
    deb
}

#[test]
fn a_package_that_is_not_a_whole_kernel_is_refused_each_time_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let home = Home {
        project: place.path().to_owned(),
        cache: place.path().join("cache"),
    };
    let image = &least_image()[..];
    let (kvm, intel, irq) = (module("irqbypass"), module("kvm"), module(""));
    let whole = [
        ("boot/vmlinuz-1", image),
        ("boot/config-1", b"CONFIG_KVM=m\n"),
        ("lib/modules/1/kvm.ko", &kvm),
        ("lib/modules/1/kvm-intel.ko", &intel),
        ("lib/modules/1/irqbypass.ko", &irq),
    ];
    let boots = |path: PathBuf| {
        let kernel = ensure(&home, &Package::File(path), &Silent);
        kernel
            .map(|kernel| kernel.modules.len())
            .map_err(|error| error.to_string())
    };
    let refused = |path: &Path, expected: &str| {
        for _ in 0..2 {
            let said = boots(path.to_owned()).unwrap_err();
            assert!(said.contains(expected), "{expected}: {said}");
            for entry in fs::read_dir(&home.cache).unwrap().flatten() {
                let name = entry.file_name().into_string().unwrap();
                assert!(name.ends_with(".failed"), "{expected}: {name}");
                assert!(!entry.path().join("tree").exists(), "{expected}");
            }
        }
    };
    let lost = ["vmlinuz", "config", "kvm.ko", "kvm.ko", "irqbypass.ko"];
    for (at, lost) in lost.iter().enumerate() {
        let files = [&whole[..at], &whole[at + 1..]].concat();
        refused(&deb(place.path(), &files), &format!("has no {lost}: "));
    }
    let mut short = whole;
    short[0].1 = &image[..1050];
    refused(&deb(place.path(), &short), "has no whole vmlinuz: ");
    let path = deb(place.path(), &whole);
    let bytes = fs::read(&path).unwrap();
    for (bytes, words) in [
        (&bytes[..bytes.len() / 2], "unexpected end"),
        (&[b'x'; 100][..], "not a Debian"),
    ] {
        let other = place.path().join("other.deb");
        fs::write(&other, bytes).unwrap();
        refused(&other, words);
    }
    for _ in 0..2 {
        assert_eq!(boots(path.clone()), Ok(3));
    }
}
