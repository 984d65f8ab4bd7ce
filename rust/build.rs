//! Compiles Strata's C++ sources into libstrata.a and has it linked. Needs a C++20 compiler (`CXX`,
//! otherwise c++) and binutils, and no other crate, so that it builds offline. The sources lie in
//! `vendor` in a packaged crate, and beside this folder in Strata's own repository.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{exit, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// As cmake/StrataFlags.cmake has them: an allocator may not depend on what calls the allocator.
const FLAGS: &[&str] = &[
    "-std=gnu++20", "-O2", "-DNDEBUG", "-fPIC", "-fno-exceptions", "-fno-rtti",
    "-fno-threadsafe-statics", "-fno-semantic-interposition", "-fvisibility=hidden",
    "-fvisibility-inlines-hidden", "-ftls-model=initial-exec",
    "-fno-builtin-malloc", "-fno-builtin-free", "-fno-builtin-calloc", "-fno-builtin-realloc",
    "-fno-builtin-aligned_alloc", "-fno-builtin-memalign", "-fno-builtin-posix_memalign",
    "-fno-builtin-valloc", "-fno-builtin-pvalloc", "-fno-builtin-reallocarray",
    "-fno-builtin-strdup", "-fno-builtin-strndup",
];

/// What single files are compiled with besides; CMakeLists.txt says why.
fn flags_of(source: &Path) -> &'static [&'static str] {
    match source.file_name().and_then(|name| name.to_str()) {
        Some("kernels_baseline.cpp") => &["-O3"],
        Some("kernels_avx2.cpp") => &["-O3", "-mavx2", "-mfma"],
        Some("kernels_avx512.cpp") => &[
            "-O3", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma",
            "-mprefer-vector-width=512",
        ],
        Some("nothrow_new.cpp") | Some("cap_call.cpp") => &["-fexceptions"],
        _ => &[],
    }
}

fn fail(text: &str) -> ! {
    eprintln!("strata-malloc: {text}");
    exit(1)
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(error) => fail(&format!("{command:?}: {error}")),
    }
}

/// The sources of libstrata.a: not the recorder's, nor the other heaps', nor what only a shared
/// library can do.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| fail(&format!("{}: {error}", folder.display())));
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            let other = ["x86_64", "aarch64", "musl"]
                .iter()
                .any(|arch| path.ends_with(arch) && env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok(arch));
            if !path.ends_with("src/trace") && !path.ends_with("heaps/libraries") && !other {
                sources(&path, found);
            }
        } else if path.extension().map_or(false, |kind| kind == "cpp")
            && !path.ends_with("malloc/watched_calls.cpp")
        {
            found.push(path);
        }
    }
}

fn main() {
    let target = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let libc = env::var("CARGO_CFG_TARGET_ENV").unwrap_or_default();
    if (target.as_str(), system.as_str(), libc.as_str()) != ("x86_64", "linux", "gnu") {
        fail(&format!("runs on x86_64-unknown-linux-gnu only, not on {target}-{system}-{libc}"));
    }
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let vendored = here.join("vendor");
    let root = if vendored.is_dir() { vendored } else { here.join("..") };
    for part in ["src", "include"] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CXX");

    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    files.sort();
    let compiler = env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"));
    let objects: Vec<PathBuf> =
        (0..files.len()).map(|number| out.join(format!("{number}.o"))).collect();
    let next = AtomicUsize::new(0);
    let jobs = env::var("NUM_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(source) = files.get(at) else { return };
                run(Command::new(&compiler)
                    .args(FLAGS)
                    .args(flags_of(source))
                    .arg("-I").arg(root.join("src"))
                    .arg("-I").arg(root.join("include"))
                    .arg("-c").arg(source)
                    .arg("-o").arg(&objects[at]));
            });
        }
    });

    // One object, so that a program gets all of the overrides or none; hidden names become local.
    let whole = out.join("strata.o");
    run(Command::new("ld").args(["-r", "--force-group-allocation", "-o"]).arg(&whole).args(&objects));
    run(Command::new("objcopy").arg("--localize-hidden").arg(&whole));
    run(Command::new("objcopy").arg("--globalize-symbol=_.stapsdt.base").arg(&whole));
    run(Command::new("objcopy").arg("--weaken-symbol=_.stapsdt.base").arg(&whole));
    let archive = out.join("libstrata.a");
    let _ = fs::remove_file(&archive);
    run(Command::new("ar").arg("crs").arg(&archive).arg(&whole));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static:+whole-archive=strata");
}
