// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels of distributions and of other versions: what they change in plans, and what is refused.

use super::{channel, small};
use crate::translate::*;

#[test]
fn a_kernel_of_another_version_beside_a_port_is_refused() {
    let stock = small("", "kernel = \"stock\"");
    let mut guest = small("", "");
    guest.vms[1].kernel = GuestKernel::Hz100;
    for (scenario, beside) in [
        (small("", "[variant.shoot4u]"), None),
        (stock, Some("the stock kernel of variant x; --kernel 7.3")),
        (
            guest,
            Some("a guest with a kernel of its own; --kernel 7.3"),
        ),
    ] {
        let said = packaged::alone(&scenario, &[&scenario.variants[0]], "--kernel 7.3").err();
        let said = said.map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains(beside.unwrap_or_default()), "{said}");
        assert_eq!(said.is_empty(), beside.is_none(), "{said}");
    }
}

#[test]
fn what_a_distributions_kernel_lacks_is_refused() {
    let on = small("", "[variant.shoot4u]");
    let of_kernel = packaged::without_remedies(&on, &[&on.variants[0]], "a distribution's kernel");
    let of_kernel = of_kernel.expect_err("refused");
    let said = of_kernel.to_string();
    assert!(
        said.contains("shoot4u") && said.contains("--variant"),
        "{said}"
    );
    let port = packaged::without_remedies(&on, &[&on.variants[0]], "kernel 6.1");
    let said = port.expect_err("refused").to_string();
    assert!(said.contains("it is not in kernel 6.1"), "{said}");
    let traced = |trace| packaged::without_trace(&on, trace, "kernel 6.1");
    assert!(traced(false).is_ok());
    let said = traced(true).expect_err("refused").to_string();
    assert!(said.contains("kernel 6.1 has none; leave out"), "{said}");
    let host = small("", "[variant.place]");
    assert!(packaged::without_remedies(&host, &[&host.variants[0]], "it").is_ok());
    assert!(packaged::without_disks(&host, &[&host.variants[0]]).is_ok());
    let mut disk = small("", "");
    disk.vms[0].disk_mib = Some(16);
    let said = packaged::without_disks(&disk, &[&disk.variants[0]]).expect_err("refused");
    assert!(said.to_string().contains("disk of VM"), "{said}");
    let channel = channel::joined(&["b"]);
    let said = packaged::without_disks(&channel, &[&channel.variants[0]]).expect_err("refused");
    assert!(
        said.to_string().contains("the channel's disks of VM a"),
        "{said}"
    );
}

#[test]
fn guests_of_a_distributions_kernel_have_more_memory_and_no_unknown_words() {
    let scenario = small("", "");
    let variant = &scenario.variants[0];
    let mut made = plan(&scenario, variant, 1, false).expect("a plan");
    let before = made.vms[0].memory_mib;
    made.vms[1].kernel = Some("/lab/other".to_owned());
    packaged::enlarge(&mut made);
    let after: Vec<_> = made.vms.iter().map(|vm| vm.memory_mib).collect();
    assert_eq!(after, [before + packaged::LARGER_MIB, before]);
    let words = variant_words(variant, None);
    assert!(
        words.iter().all(|word| !word.contains("shoot4u")),
        "{words:?}"
    );
}
