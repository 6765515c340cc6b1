// @licence@
//! The network @name@, compiled for the NPU of the STM32N6 by @tool@. Do not edit.
//!
//! @programs_text@ of the epoch controller, run in order; nothing is left for the processor. Before the first inference the
//! firmware switches on @memories@. Inputs and outputs lie at the
//! addresses below: write an input, clean the data cache over it, run, invalidate the cache over an output, read it.
#![no_std]

#[repr(C, align(@line@))]
struct Aligned<T>(T);

/// A program as the driver takes it.
fn words(bytes: &'static [u8]) -> &'static [u64] {
    // SAFETY: every program is a whole number of 64-bit words, and `Aligned` puts it at a multiple of @line@ bytes.
    unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) }
}

@begin programs@
#[cfg_attr(target_os = "none", link_section = "@blobs@")]
static BLOB_@first@: Aligned<[u8; @size@]> = Aligned(*include_bytes!("../@file@"));
@end programs@

/// The programs in the order in which they run.
pub fn blobs() -> [&'static [u64]; @count@] {
    [@calls@]
}

/// Constants that must be in memory before the first inference.
pub struct Weights {
    /// The file in `weights/`.
    pub file: &'static str,
    pub address: usize,
    pub len: usize,
    pub crc32: u32,
}

pub const WEIGHTS: [Weights; @weights_count@] = [@weights_text@];

@begin weights@
#[cfg(feature = "weights")]
#[used]
#[cfg_attr(target_os = "none", link_section = "@section@_@k@")]
static WEIGHTS_@k@: Aligned<[u8; @size@]> = Aligned(*include_bytes!("../weights/@file@"));

@end weights@
impl Weights {
    /// Whether they are there: reads all of them once.
    ///
    /// # Safety
    /// The memory at `address` is switched on and mapped.
    pub unsafe fn are_there(&self) -> bool {
        let mut crc = !0u32;
        for k in 0..self.len {
            crc ^= u32::from(core::ptr::read_volatile((self.address + k) as *const u8));
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
            }
        }
        !crc == self.crc32
    }
}
@begin edges@

/// The @what@ `@label@` of the model: real value = (code - ZERO_POINT) * SCALE.
pub mod @module@ {
    pub type Element = @rust@;
    pub const NAME: &str = "@label@";
    pub const SHAPE: [usize; @rank@] = [@shape@];
    pub const LEN: usize = @elements@;
    pub const ADDRESS: usize = @address@;
    pub const BYTES: usize = @size@;
    pub const SCALE: f32 = @scale@;
    pub const ZERO_POINT: i32 = @zero@;

    /// The memory of the @what@.
    ///
    /// # Safety
    /// The memory is switched on, no inference runs, and nobody else has this reference.
    pub unsafe fn buffer() -> &'static mut [Element; LEN] {
        &mut *(ADDRESS as *mut [Element; LEN])
    }
}
@end edges@
@begin has_states@

/// What the network keeps from one inference to the next.
pub struct State {
    pub name: &'static str,
    pub address: usize,
    /// What it begins with.
    pub first: &'static [u8],
}

pub const STATES: [State; @states_count@] = [
@begin states@
    State { name: "@label@", address: @address@, first: include_bytes!("../@file@") },
@end states@
];

/// First values for all states: before the first inference, and where a recording begins. Then clean the data cache over
/// each of them.
///
/// # Safety
/// The memory is switched on, and no inference runs.
pub unsafe fn reset_states() {
    for state in &STATES {
        core::ptr::copy_nonoverlapping(state.first.as_ptr(), state.address as *mut u8, state.first.len());
    }
}
@end has_states@
