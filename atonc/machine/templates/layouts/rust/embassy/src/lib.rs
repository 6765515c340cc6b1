// @licence@
//! The network @name@ on embassy's NPU driver, written by @tool@. Do not edit.
#![no_std]

use embassy_stm32::npu::{cache, EpochBlock, Error, Instance, Npu};

/// What `Npu::run_network` takes.
pub fn epochs() -> [EpochBlock<'static>; @count@] {
    @crate@::blobs().map(EpochBlock::hw)
}

/// One inference: the inputs are in their memory, then the outputs are in theirs.
pub async fn run<T: Instance>(npu: &mut Npu<'_, T>) -> Result<(), Error> {
@begin inputs@
    cache::mcu_clean_range(@crate@::@module@::ADDRESS as u32, @lines_bytes@);
@end inputs@
    npu.run_network(&epochs()).await?;
@begin outputs@
    cache::mcu_invalidate_range(@crate@::@module@::ADDRESS as u32, @lines_bytes@);
@end outputs@
    Ok(())
}
@begin has_states@

/// First values for all states: before the first inference, and where a recording begins.
///
/// # Safety
/// The memory is switched on, and no inference runs.
pub unsafe fn reset_states() {
    @crate@::reset_states();
    for state in &@crate@::STATES {
        let (start, end) = (state.address & !(@cpu_line@ - 1), state.address + state.first.len());
        cache::mcu_clean_range(start as u32, (end - start).next_multiple_of(@cpu_line@) as u32); // whole lines
    }
}
@end has_states@
