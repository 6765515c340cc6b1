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
