// @licence@
//! Puts npu.x where the linker finds it: add "-C", "link-arg=-Tnpu.x" to the rustflags of the firmware.
use std::{env, fs, path::Path};

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("npu.x"), include_bytes!("npu.x")).expect("OUT_DIR can be written");
    println!("cargo:rustc-link-search={out}");
    println!("cargo:rerun-if-changed=npu.x");
}
