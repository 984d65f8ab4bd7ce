//! Compiles Strata's C++ sources into libstrata.a and has it linked. Needs a C++20 compiler and
//! binutils, and no other crate, so that it builds offline. The compiler is CXX_TARGET (as in
//! CXX_aarch64_unknown_linux_gnu), TARGET_CXX or CXX, otherwise c++, and for another architecture
//! g++ and binutils by Debian's names. For musl on a machine with glibc, libstdc++'s headers are
//! used with musl's, as cmake/toolchain-musl.cmake does. The sources lie in `vendor` in a packaged
//! crate, and beside this folder in Strata's own repository.

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

/// What is built for, and with what.
struct Target {
    arch: String,
    libc: String,
    is_cross: bool,   // to another architecture
    from_glibc: bool, // to musl, where the compiler knows glibc's headers
}

impl Target {
    fn find() -> Target {
        let variable = |name: &str| env::var(name).unwrap_or_default();
        let arch = variable("CARGO_CFG_TARGET_ARCH");
        let system = variable("CARGO_CFG_TARGET_OS");
        let libc = variable("CARGO_CFG_TARGET_ENV");
        let known = ["x86_64", "aarch64"].contains(&arch.as_str())
            && ["gnu", "musl"].contains(&libc.as_str())
            && system == "linux";
        if !known {
            fail(&format!("runs on Linux on x86_64 and aarch64, with glibc or musl, not on {arch}-{system}-{libc}"));
        }
        let host = variable("HOST");
        Target {
            is_cross: !host.starts_with(&format!("{arch}-")),
            from_glibc: libc == "musl" && host.ends_with("-gnu"),
            arch,
            libc,
        }
    }

    fn tool(&self, name: &str) -> String {
        if self.is_cross { format!("{}-linux-gnu-{name}", self.arch) } else { name.to_string() }
    }

    fn compiler(&self) -> OsString {
        let triple = env::var("TARGET").unwrap_or_default();
        let ours = format!("CXX_{}", triple.replace('-', "_"));
        for name in [ours.as_str(), "TARGET_CXX", "CXX"] {
            println!("cargo:rerun-if-env-changed={name}");
            if let Some(found) = env::var_os(name) {
                return found;
            }
        }
        OsString::from(self.tool(if self.is_cross { "g++" } else { "c++" }))
    }

    /// For musl where the compiler knows glibc's headers: musl's, which Debian's musl-dev has or
    /// MUSL_INCLUDE names, before libstdc++'s own.
    fn header_flags(&self, compiler: &OsString, root: &Path, out: &Path) -> Vec<OsString> {
        if !self.from_glibc {
            return Vec::new();
        }
        let ask = |what: &str| {
            let answer = Command::new(compiler).arg(what).output();
            let text = answer.map(|answer| answer.stdout).unwrap_or_default();
            String::from_utf8_lossy(&text).trim().to_string()
        };
        let gnu = format!("{}-linux-gnu", self.arch);
        let version = ask("-dumpversion");
        let (headers, of_machine, cxx_of_machine) = if self.is_cross {
            let headers = format!("/usr/{gnu}/include");
            (headers.clone(), headers.clone(), format!("{headers}/c++/{version}/{gnu}"))
        } else {
            let of_machine = format!("/usr/include/{gnu}");
            ("/usr/include".to_string(), of_machine.clone(), format!("{of_machine}/c++/{version}"))
        };
        let kernel = out.join("kernel-headers");
        let _ = fs::create_dir_all(&kernel);
        for (name, folder) in [("linux", &headers), ("asm-generic", &headers), ("asm", &of_machine)] {
            let _ = std::os::unix::fs::symlink(format!("{folder}/{name}"), kernel.join(name));
        }
        println!("cargo:rerun-if-env-changed=MUSL_INCLUDE");
        let musl = env::var_os("MUSL_INCLUDE").map(PathBuf::from);
        let musl = musl.unwrap_or_else(|| format!("/usr/include/{}-linux-musl", self.arch).into());
        if !musl.is_dir() {
            fail(&format!("{}: no headers of musl there; MUSL_INCLUDE names another folder", musl.display()));
        }
        let mut flags: Vec<OsString> = vec!["-nostdinc".into(), "-nostdinc++".into()];
        if self.arch == "aarch64" {
            flags.push("-mno-outline-atomics".into()); // libgcc's ask for a function of glibc's
        }
        for folder in [
            root.join("cmake/musl"),
            format!("{headers}/c++/{version}").into(),
            cxx_of_machine.into(),
            musl,
            ask("-print-file-name=include").into(),
            kernel,
        ] {
            flags.push("-isystem".into());
            flags.push(folder.into());
        }
        flags
    }
}

/// The sources of libstrata.a: not the recorder's, nor the other heaps', nor what only a shared
/// library can do, nor what is for another architecture or C library.
fn sources(folder: &Path, target: &Target, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| fail(&format!("{}: {error}", folder.display())));
    let own = [target.arch.as_str(), if target.libc == "gnu" { "glibc" } else { "musl" }];
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            let other = ["x86_64", "aarch64", "glibc", "musl"]
                .iter()
                .any(|name| path.ends_with(name) && !own.contains(name));
            if !path.ends_with("src/trace") && !path.ends_with("heaps/libraries") && !other {
                sources(&path, target, found);
            }
        } else if path.extension().map_or(false, |kind| kind == "cpp")
            && !path.ends_with("malloc/watched_calls.cpp")
            && !(target.libc == "musl" && path.ends_with("dlopen_entry.cpp")) // it knows no RTLD_DEEPBIND
        {
            found.push(path);
        }
    }
}

fn main() {
    let target = Target::find();
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let vendored = here.join("vendor");
    let root = if vendored.is_dir() { vendored } else { here.join("..") };
    for part in ["src", "include"] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    println!("cargo:rerun-if-changed=build.rs");

    let mut files = Vec::new();
    sources(&root.join("src"), &target, &mut files);
    files.sort();
    let compiler = target.compiler();
    let mut flags = target.header_flags(&compiler, &root, &out);
    if target.arch == "aarch64" {
        // A restartable sequence must not branch into a part of its function that lies elsewhere.
        flags.push("-fno-reorder-blocks-and-partition".into());
    }
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
                    .args(&flags)
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
    run(Command::new(target.tool("ld")).args(["-r", "--force-group-allocation", "-o"]).arg(&whole).args(&objects));
    run(Command::new(target.tool("objcopy")).arg("--localize-hidden").arg(&whole));
    run(Command::new(target.tool("objcopy")).arg("--globalize-symbol=_.stapsdt.base").arg(&whole));
    run(Command::new(target.tool("objcopy")).arg("--weaken-symbol=_.stapsdt.base").arg(&whole));
    let archive = out.join("libstrata.a");
    let _ = fs::remove_file(&archive);
    run(Command::new(target.tool("ar")).arg("crs").arg(&archive).arg(&whole));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static:+whole-archive=strata");
}
