// The program finds the library where the crate has linked it.
fn main() {
    let dir = std::env::var("DEP_BARACUDA_KERNELS_LIB_DIR").expect("BARACUDA_LIB_DIR says where the library is");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{dir}");
}
