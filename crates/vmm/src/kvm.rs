// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VM as KVM sees it: interrupt controllers, timer, memory, vCPUs with their CPUID.

use anyhow::{Context, Result, ensure};
use kvm_bindings::{
    CpuId, KVM_CAP_ENFORCE_PV_FEATURE_CPUID, KVM_CAP_X86_DISABLE_EXITS, KVM_MAX_CPUID_ENTRIES,
    KVM_PIT_SPEAKER_DUMMY, KVM_X86_DISABLE_EXITS_HLT, Msrs, kvm_cpuid_entry2, kvm_enable_cap,
    kvm_msr_entry, kvm_pit_config,
};
use kvm_ioctls::{Cap, Kvm, VcpuFd, VmFd};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::boot;
use crate::cli::{Config, Hypervisor};
use crate::cpuid::{self, Guest};
use crate::layout::{GDT, KVM_IDENTITY_MAP, KVM_TSS, MP_TABLE, PAGE_TABLES};
use crate::mptable::{self, Processor};
use crate::pv;
use crate::start_state;
use crate::sys;

const MSR_MISC_ENABLE: u32 = 0x1a0;
const MISC_ENABLE_FAST_STRINGS: u64 = 1;
const MSR_MTRR_DEFAULT_TYPE: u32 = 0x2ff;
/// Range registers on, everything write-back: what firmware would have left.
const MTRR_WRITE_BACK: u64 = (1 << 11) | 6;

/// A VM with memory and interrupt controllers, without vCPUs yet.
#[derive(Debug)]
pub struct Vm {
    /// The VM.
    pub fd: VmFd,
    /// Its memory.
    pub memory: GuestMemoryMmap,
    cpuid: Vec<kvm_cpuid_entry2>,
    guest: Guest,
}

impl Vm {
    /// Makes a VM with its vCPUs and memory, and the MP table in it.
    ///
    /// # Errors
    /// When KVM is absent or too weak, memory is short, or a paravirtual feature is not offered.
    pub fn new(config: &Config) -> Result<Self> {
        let (cpus, memory_bytes) = (config.cpus, config.memory_bytes);
        let kvm = Kvm::new().context(
            "cannot open /dev/kvm; is KVM in this kernel, the CPU able to virtualize, and /dev \
             mounted?",
        )?;
        check_limits(&kvm, cpus)?;
        let cpuid = kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .context("KVM does not give its CPUID")?
            .as_slice()
            .to_vec();
        let (offered, hints) = cpuid::kvm_features(&cpuid).unwrap_or_default();
        let (pv_features, pv_hints) = pv::apply(offered, hints, &config.pv)?;
        let guest = Guest {
            cpus: u8::try_from(cpus).map_err(|_| mptable::Error::TooManyCpus(cpus))?,
            pv_features,
            pv_hints,
            hyperv: config.hypervisor == Hypervisor::HyperV,
            mwait: config.mwait,
            tsc_deadline: kvm.check_extension(Cap::TscDeadlineTimer),
        };
        let fd = kvm.create_vm().context("KVM cannot create a VM")?;
        fd.set_tss_address(KVM_TSS)
            .context("KVM_SET_TSS_ADDR failed")?;
        fd.set_identity_map_address(KVM_IDENTITY_MAP)
            .context("KVM_SET_IDENTITY_MAP_ADDR failed")?;
        if config.halt_in_guest {
            let mut halts = kvm_enable_cap {
                cap: KVM_CAP_X86_DISABLE_EXITS,
                ..Default::default()
            };
            halts.args[0] = u64::from(KVM_X86_DISABLE_EXITS_HLT);
            fd.enable_cap(&halts)
                .context("KVM cannot let vCPUs halt in the guest (KVM_CAP_X86_DISABLE_EXITS)")?;
        }
        fd.create_irq_chip().context("KVM_CREATE_IRQCHIP failed")?;
        let pit = kvm_pit_config {
            flags: KVM_PIT_SPEAKER_DUMMY,
            ..Default::default()
        };
        fd.create_pit2(pit).context("KVM_CREATE_PIT2 failed")?;
        let size = usize::try_from(memory_bytes).context("too much memory")?;
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), size)])
            .with_context(|| format!("cannot get {memory_bytes} bytes for the guest's memory"))?;
        sys::register_memory(&fd, &memory).context("KVM does not take the guest's memory")?;
        let vm = Vm {
            fd,
            memory,
            cpuid,
            guest,
        };
        vm.write_tables(cpus)?;
        Ok(vm)
    }

    fn write_tables(&self, cpus: u32) -> Result<()> {
        let entries = cpuid::for_vcpu(&self.cpuid, self.guest, 0);
        let leaf = entries.iter().find(|entry| entry.function == 1);
        let leaf = leaf.context("this host's CPUID has no leaf 1")?;
        let processor = Processor {
            signature: leaf.eax,
            features: leaf.edx,
        };
        let address = u32::try_from(MP_TABLE).expect("below 1 MiB");
        boot::write(
            &self.memory,
            MP_TABLE,
            &mptable::build(address, cpus, processor)?,
        )?;
        boot::write(&self.memory, GDT, &start_state::gdt())?;
        boot::write(&self.memory, PAGE_TABLES, &start_state::page_tables())
    }

    /// Makes the vCPU with this number; number 0 is set to start at `entry`.
    ///
    /// # Errors
    /// When KVM refuses any part of its state.
    pub fn create_vcpu(&self, index: u32, entry: u64) -> Result<VcpuFd> {
        let fail = |what: &str| format!("vCPU {index}: {what} failed");
        let vcpu = self
            .fd
            .create_vcpu(index.into())
            .with_context(|| fail("KVM_CREATE_VCPU"))?;
        let apic_id = u8::try_from(index).expect("checked against the MP table's limit");
        let entries = cpuid::for_vcpu(&self.cpuid, self.guest, apic_id);
        let entries = CpuId::from_entries(&entries).map_err(|_| {
            anyhow::anyhow!(
                "vCPU {index}: more CPUID entries than KVM takes ({})",
                entries.len()
            )
        })?;
        vcpu.set_cpuid2(&entries)
            .with_context(|| fail("KVM_SET_CPUID2"))?;
        let mut enforce = kvm_enable_cap {
            cap: KVM_CAP_ENFORCE_PV_FEATURE_CPUID,
            ..Default::default()
        };
        enforce.args[0] = 1;
        vcpu.enable_cap(&enforce)
            .with_context(|| fail("KVM_CAP_ENFORCE_PV_FEATURE_CPUID"))?;
        set_msrs(&vcpu).with_context(|| fail("KVM_SET_MSRS"))?;
        if index == 0 {
            let mut sregs = vcpu.get_sregs().with_context(|| fail("KVM_GET_SREGS"))?;
            start_state::enter_long_mode(&mut sregs);
            vcpu.set_sregs(&sregs)
                .with_context(|| fail("KVM_SET_SREGS"))?;
            let regs = start_state::registers(entry);
            vcpu.set_regs(&regs).with_context(|| fail("KVM_SET_REGS"))?;
        }
        Ok(vcpu)
    }
}

fn check_limits(kvm: &Kvm, cpus: u32) -> Result<()> {
    let limit = kvm.get_max_vcpus();
    ensure!(
        usize::try_from(cpus).is_ok_and(|cpus| cpus <= limit),
        "{cpus} vCPUs, but this host's KVM takes at most {limit} in a VM"
    );
    let enforce = kvm.check_extension_raw(KVM_CAP_ENFORCE_PV_FEATURE_CPUID.into());
    ensure!(
        enforce > 0,
        "this host's KVM cannot withhold paravirtual features \
         (KVM_CAP_ENFORCE_PV_FEATURE_CPUID); Linux 5.10 or later is needed"
    );
    Ok(())
}

fn set_msrs(vcpu: &VcpuFd) -> Result<()> {
    let entry = |index, data| kvm_msr_entry {
        index,
        data,
        ..Default::default()
    };
    let entries = [
        entry(MSR_MISC_ENABLE, MISC_ENABLE_FAST_STRINGS),
        entry(MSR_MTRR_DEFAULT_TYPE, MTRR_WRITE_BACK),
    ];
    let msrs = Msrs::from_entries(&entries).expect("two entries fit");
    let set = vcpu.set_msrs(&msrs)?;
    ensure!(
        set == entries.len(),
        "MSR {:#x} was refused",
        entries[set].index
    );
    Ok(())
}
