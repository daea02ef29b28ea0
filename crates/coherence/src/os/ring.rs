// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CLOCK's hand over the DRAM frames of one VM.
//!
//! Each VM has its own, so that one VM's search neither clears another's reference bits nor walks
//! past its frames. Frames are in the order in which the VM first had them.

use super::NONE;

/// No VM's ring has the frame.
const NOBODY: u16 = u16::MAX;

#[derive(Debug, Clone, Default)]
struct Ring {
    frames: Vec<u32>,
    hand: usize,
}

/// The rings of all VMs over one region of frames.
#[derive(Debug, Clone, Default)]
pub(super) struct Rings {
    by_vm: Vec<Ring>,
    /// The VM whose ring a frame belongs to.
    member: Vec<u16>,
}

impl Rings {
    /// `frame` has come to a VM. Frames are met in order of their numbers.
    pub fn join(&mut self, frame: u32, vm: u16) {
        let (at, vm_at) = (frame as usize, usize::from(vm));
        if self.member.len() <= at {
            self.member.resize(at + 1, NOBODY);
        }
        if self.by_vm.len() <= vm_at {
            self.by_vm.resize_with(vm_at + 1, Ring::default);
        }
        // A frame that a VM had before is still in its ring, where its place is.
        if self.member[at] != vm {
            self.member[at] = vm;
            self.by_vm[vm_at].frames.push(frame);
        }
    }

    /// The next of the VM's frames that is in use and whose reference bit is clear; bits passed are
    /// cleared. `owners` says which block is in each frame.
    pub fn clock(
        &mut self,
        vm: u16,
        owners: &[u32],
        mut referenced: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let ring = self.by_vm.get_mut(usize::from(vm))?;
        // Two rounds suffice: the first clears every bit it passes.
        for _ in 0..2 * ring.frames.len() {
            if ring.hand >= ring.frames.len() {
                ring.hand = 0;
            }
            let Some(&frame) = ring.frames.get(ring.hand) else {
                break;
            };
            if self.member[frame as usize] != vm {
                // It went to another VM meanwhile.
                ring.frames.swap_remove(ring.hand);
                continue;
            }
            ring.hand = (ring.hand + 1) % ring.frames.len();
            let owner = owners[frame as usize];
            if owner != NONE && !referenced(owner) {
                return Some(owner);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{NONE, Rings};

    #[test]
    fn a_vm_s_hand_passes_its_own_frames_only_and_skips_what_it_lost() {
        let mut rings = Rings::default();
        for frame in 0..8_u32 {
            rings.join(frame, u16::from(frame % 2 == 1));
        }
        let mut owners: Vec<u32> = (100..108).collect();
        let next = |rings: &mut Rings, owners: &[u32], vm| rings.clock(vm, owners, |_| false);
        assert_eq!(next(&mut rings, &owners, 1), Some(101));
        // Frame 3 goes to VM 0, and frame 5 is free.
        rings.join(3, 0);
        owners[5] = NONE;
        assert_eq!(next(&mut rings, &owners, 1), Some(107));
        assert_eq!(next(&mut rings, &owners, 1), Some(101));
        let zero: Vec<_> = (0..5).map(|_| next(&mut rings, &owners, 0)).collect();
        assert_eq!(zero, [100, 102, 104, 106, 103].map(Some));
        assert_eq!(rings.clock(7, &owners, |_| false), None);
    }
}
