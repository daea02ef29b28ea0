// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which packages are kernels, and what is taken out of them.

use std::process::Command;

use steady_race::Silent;

use super::super::{Choice, given};
use super::contents::{config, write};
use super::modules::of_host;
use super::*;

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
    let found = of_host(&files).unwrap();
    let names: Vec<&str> = found.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["irqbypass", "kvm", "kvm_intel", "ccp", "kvm_amd"]);
    assert_eq!(found[1].bytes, module("irqbypass"), "it is unpacked");
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

/// An image whose header names three units of 16 bytes behind it.
fn image() -> Vec<u8> {
    let mut image = vec![0; 1024 + 48];
    (image[0x1f1], image[0x1f4]) = (1, 3);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image
}

/// The files of a kernel that has its modules.
fn kernel_files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("boot/vmlinuz-1", image()),
        ("boot/config-1", b"CONFIG_X86_64=y\nCONFIG_KVM=m\n".to_vec()),
        ("lib/modules/1/kernel/kvm.ko", module("")),
        ("lib/modules/1/kernel/kvm-intel.ko", module("kvm")),
    ]
}

/// A home with an empty cache.
fn home(place: &Path) -> Home {
    Home {
        project: place.to_owned(),
        cache: place.join("cache"),
    }
}

/// The modules of the kernel that `--kernel` names so, or what is said instead.
fn boots(home: &Home, text: &str) -> Result<usize, String> {
    let kernel = match text.parse().unwrap() {
        Choice::Packaged(package) => ensure(home, &package, &Silent),
        Choice::Given(folder) => given(&folder),
        other => panic!("{other}"),
    };
    kernel
        .map(|kernel| kernel.modules.len())
        .map_err(|error| error.to_string())
}

#[test]
fn a_folder_of_a_kernels_files_or_of_the_packages_that_it_is_split_into_is_one() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let files = place.path().join("files");
    for (name, bytes) in kernel_files() {
        write(&files.join(name), &bytes).unwrap();
    }
    std::os::unix::fs::symlink("boot/vmlinuz-1", files.join("vmlinuz")).unwrap();
    // As of headers that are not there, and of a folder above.
    std::os::unix::fs::symlink("..", files.join("lib/modules/1/build")).unwrap();
    assert_eq!(boots(&home, files.to_str().unwrap()), Ok(2));
    let second = files.join("boot/vmlinuz-2");
    fs::write(&second, image()).unwrap();
    let said = boots(&home, files.to_str().unwrap()).unwrap_err();
    assert!(
        said.contains("more than one kernel: vmlinuz-1, vmlinuz-2"),
        "{said}"
    );
    let split = place.path().join("split");
    fs::create_dir(&split).unwrap();
    for (at, (name, bytes)) in kernel_files().iter().enumerate() {
        let made = deb(place.path(), &[(name, bytes)]);
        fs::rename(made, split.join(format!("{at}.deb"))).unwrap();
    }
    assert_eq!(boots(&home, split.to_str().unwrap()), Ok(2));
    fs::remove_file(split.join("2.deb")).unwrap();
    let said = boots(&home, split.to_str().unwrap()).unwrap_err();
    assert!(said.contains("has no kvm.ko"), "{said}");
}

#[test]
fn a_kernel_for_another_machine_or_without_kvm_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    for (config, expected) in [
        ("CONFIG_X86_32=y\nCONFIG_KVM=m\n", "is not of x86-64"),
        (
            "CONFIG_X86_64=y\n# CONFIG_KVM is not set\n",
            "CONFIG_KVM is not set",
        ),
    ] {
        let mut files = kernel_files();
        files[1].1 = config.as_bytes().to_vec();
        let files: Vec<_> = files
            .iter()
            .map(|(name, bytes)| (*name, &bytes[..]))
            .collect();
        let path = deb(place.path(), &files);
        let said = boots(&home, path.to_str().unwrap()).unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
    let gone = place.path().join("gone.deb");
    let said = boots(&home, gone.to_str().unwrap()).unwrap_err();
    assert!(
        said.contains("gone.deb cannot be read: No such file"),
        "{said}"
    );
}

#[test]
fn a_built_kernel_has_kvm_in_its_image_or_in_modules_that_were_made() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let objects = place.path().join("objects");
    let put = |name: &str, bytes: &[u8]| write(&objects.join(name), bytes).unwrap();
    put("arch/x86/boot/bzImage", &image());
    put("System.map", b"ffffffff81000000 T _text\n");
    put("include/config/kernel.release", b"6.12.1\n");
    let text = objects.to_str().unwrap();
    for (config, said) in [
        ("CONFIG_KVM=y\nCONFIG_KVM_AMD=y\n", None),
        ("# CONFIG_KVM is not set\n", Some("CONFIG_KVM is not set")),
        ("CONFIG_KVM=m\nCONFIG_KVM_INTEL=m\n", Some("has no kvm.ko")),
    ] {
        put(".config", config.as_bytes());
        let found = boots(&home, text).err();
        assert_eq!(found.is_none(), said.is_none(), "{found:?}");
        let found = found.unwrap_or_default();
        assert!(found.contains(said.unwrap_or_default()), "{found}");
    }
    put(
        "modules.order",
        b"arch/x86/kvm/kvm.o\narch/x86/kvm/kvm-intel.o\n",
    );
    put("arch/x86/kvm/kvm.ko", &module(""));
    let said = boots(&home, text).unwrap_err();
    assert!(said.contains("kvm-intel.ko or kvm-amd.ko"), "{said}");
    put("arch/x86/kvm/kvm-intel.ko", &module("kvm"));
    assert_eq!(boots(&home, text), Ok(2));
}

/// Tools run in other folders than the caller's.
#[test]
fn a_path_is_of_the_folder_that_the_caller_is_in() {
    let here = std::env::current_dir().unwrap();
    let place = tempfile::tempdir_in(&here).unwrap();
    let home = home(place.path());
    let files = kernel_files();
    let files: Vec<_> = files
        .iter()
        .map(|(name, bytes)| (*name, &bytes[..]))
        .collect();
    let path = deb(place.path(), &files);
    let relative = format!("./{}", path.strip_prefix(&here).unwrap().display());
    assert_eq!(boots(&home, &relative), Ok(2));
    let objects = place.path().join("objects");
    for name in [
        "arch/x86/boot/bzImage",
        "System.map",
        "include/config/kernel.release",
    ] {
        write(&objects.join(name), b"6.12.1\n").unwrap();
    }
    write(
        &objects.join(".config"),
        b"CONFIG_KVM=y\nCONFIG_KVM_INTEL=y\n",
    )
    .unwrap();
    let relative = format!("./{}", objects.strip_prefix(&here).unwrap().display());
    let kernel = given(Path::new(&relative)).unwrap();
    assert_eq!(kernel.image, objects.join("arch/x86/boot/bzImage"));
}

#[test]
fn a_package_that_is_not_a_whole_kernel_is_refused_each_time_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let image = &image()[..];
    let (kvm, intel, irq) = (module("irqbypass"), module("kvm"), module(""));
    let whole = [
        ("boot/vmlinuz-1", image),
        ("boot/config-1", b"CONFIG_X86_64=y\nCONFIG_KVM=m\n"),
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
    let lost = [
        "vmlinuz",
        "config",
        "kvm.ko",
        "kvm-intel.ko or kvm-amd.ko",
        "irqbypass.ko",
    ];
    for (at, lost) in lost.iter().enumerate() {
        let files = [&whole[..at], &whole[at + 1..]].concat();
        refused(&deb(place.path(), &files), &format!("has no {lost}: "));
    }
    for cut in [&image[..1050], b"not a kernel"] {
        let mut short = whole;
        short[0].1 = cut;
        refused(&deb(place.path(), &short), "has no whole vmlinuz: ");
    }
    let path = deb(place.path(), &whole);
    let bytes = fs::read(&path).unwrap();
    for (bytes, words) in [
        (&bytes[..bytes.len() / 2], "unexpected end"),
        (&[b'x'; 100][..], "is not a Debian package"),
    ] {
        let other = place.path().join("other.deb");
        fs::write(&other, bytes).unwrap();
        refused(&other, words);
    }
    for _ in 0..2 {
        assert_eq!(boots(path.clone()), Ok(3));
    }
}
