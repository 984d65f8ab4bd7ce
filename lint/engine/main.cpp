// strata-lint-engine: reads bitcode and properties, writes findings as JSON on stdout. `strata
// lint` (python/strata/lint) calls it; docs/lint.md has the whole.
//   strata-lint-engine [--progress] [--work N] --property FILE... [--list FILE] [--shared FILE]
//     BITCODE...
// --list: a file with names of bitcode, one a line; --shared: those of them that another program
// has whole (needed.h).
// --work: the steps for each line of code, after which less is followed (solver.h).
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "memory.h"
#include "needed.h"
#include "program.h"
#include "property.h"
#include "solver.h"

namespace {

int fail(const std::string& message) {
  std::fprintf(stderr, "strata-lint-engine: %s\n", message.c_str());
  return 2;
}

struct Options {
  bool progress = false;
  std::size_t work = lint::kMostWorkPerLine;
  std::vector<std::string> properties, bitcode;
  std::set<std::string> shared;
};

std::string parse(int argc, char** argv, Options& options) {
  for (int a = 1; a < argc; ++a) {
    const std::string word = argv[a];
    if (word == "--progress") {
      options.progress = true;
    } else if (word == "--work" && a + 1 < argc) {
      const std::string_view number = argv[++a];
      const char* end = number.data() + number.size();
      const auto [rest, wrong] = std::from_chars(number.data(), end, options.work);
      if (wrong != std::errc() || rest != end)
        return "--work takes a number of steps, not '" + std::string(number) + "'";
    } else if (word == "--property" && a + 1 < argc) {
      options.properties.emplace_back(argv[++a]);
    } else if (word == "--list" && a + 1 < argc) {
      std::ifstream in(argv[++a]);
      for (std::string line; std::getline(in, line, '\0');) options.bitcode.push_back(line);
    } else if (word == "--shared" && a + 1 < argc) {
      std::ifstream in(argv[++a]);
      for (std::string line; std::getline(in, line, '\0');) options.shared.insert(line);
    } else if (word.starts_with("-")) {
      return "unknown option " + word;
    } else {
      options.bitcode.push_back(word);
    }
  }
  if (options.bitcode.empty()) return "no bitcode was given";
  return options.properties.empty() ? "no property was given" : "";
}

std::string read_property(const std::string& file, lint::Property& property) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return file + ": cannot be read";
  lint::PropertyError error;
  property.file = file;
  if (lint::parse_property(text.str(), property, error)) return {};
  return file + ":" + std::to_string(error.line) + ":" + std::to_string(error.column) + ": " +
         error.message;
}

std::string file_of(const llvm::DILocation& at) {
  const std::string file = at.getFilename().str();
  return file.starts_with("/") ? file : at.getDirectory().str() + "/" + file;
}

std::string name_of(const llvm::DILocation& at) {
  const llvm::DISubprogram* sub = at.getScope()->getSubprogram();
  const llvm::StringRef linked = sub->getLinkageName();
  return llvm::demangle((linked.empty() ? sub->getName() : linked).str());
}

void tell_place(llvm::json::Object& out, const llvm::DILocation& at) {
  if (at.getInlinedAt() != nullptr) out["function"] = name_of(at);
  out["file"] = file_of(at);
  out["line"] = at.getLine();
  out["column"] = at.getColumn();
}

// Where the step is told. What a header of the system does is told where the program asks for it.
const llvm::DILocation* told_at(const lint::Step& step) {
  const llvm::DILocation* at = step.at->getDebugLoc().get();
  while (at != nullptr && at->getInlinedAt() != nullptr && file_of(*at).starts_with("/usr/"))
    at = at->getInlinedAt();
  return at;
}

// The calls by which a step's function was called, if it was taken into that which calls.
std::vector<llvm::json::Object> calls_to(const lint::Step& step) {
  std::vector<llvm::json::Object> calls;
  const llvm::DILocation* at = told_at(step);
  for (; at != nullptr && at->getInlinedAt() != nullptr; at = at->getInlinedAt()) {
    llvm::json::Object& call = calls.emplace_back();
    call["note"] = "into " + name_of(*at);
    call["function"] = llvm::demangle(step.at->getFunction()->getName().str());
    tell_place(call, *at->getInlinedAt());
  }
  std::reverse(calls.begin(), calls.end());
  return calls;
}

llvm::json::Object place(const lint::Step& step) {
  llvm::json::Object out{{"note", step.note}};
  const llvm::Function* f = step.at->getFunction();
  out["function"] = llvm::demangle(f->getName().str());
  if (const llvm::DILocation* at = told_at(step); at != nullptr) {
    tell_place(out, *at);
  } else if (const llvm::DISubprogram* sub = f->getSubprogram(); sub != nullptr) {
    std::string file = sub->getFilename().str();
    if (!file.starts_with("/")) file = sub->getDirectory().str() + "/" + file;
    out["file"] = file;
    out["line"] = sub->getLine();
    out["column"] = 0;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const std::string wrong = parse(argc, argv, options); !wrong.empty()) return fail(wrong);
  std::vector<lint::Property> properties(options.properties.size());
  for (std::size_t p = 0; p < properties.size(); ++p) {
    const std::string wrong = read_property(options.properties[p], properties[p]);
    if (!wrong.empty()) return fail(wrong);
  }
  auto last = std::chrono::steady_clock::time_point();
  const lint::Progress progress = [&](const char* phase, std::size_t done, std::size_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!options.progress ||
        (done != 0 && done != total && now - last < std::chrono::milliseconds(100)))
      return;
    last = now;
    std::fprintf(stderr, "progress %s %zu %zu\n", phase, done, total);
  };
  lint::Program program;
  if (const std::string wrong =
          program.load(lint::needed(options.bitcode, options.shared), progress);
      !wrong.empty())
    return fail(wrong);
  const auto is_known = [&](const llvm::Function& f) {
    const std::string name = f.getName().str(), plain = lint::plain_name(f),
                      whole = llvm::demangle(name);
    for (const lint::Property& p : properties) {
      for (const lint::Rule& rule : p.rules) {
        for (const std::string& pattern : rule.functions) {
          const bool overload = pattern.find('(') != std::string::npos;
          if (lint::matches(pattern, name) || lint::matches(pattern, overload ? whole : plain))
            return true;
        }
      }
    }
    return false;
  };
  program.prepare(is_known, progress);
  lint::Memory memory(program, progress);
  lint::Solver solver(program, memory, properties, options.work);
  const std::vector<lint::Finding> findings = solver.run(progress);
  llvm::json::Array list;
  for (const lint::Finding& f : findings) {
    llvm::json::Array steps;
    for (const lint::Step& s : f.steps) {
      for (llvm::json::Object& call : calls_to(s)) steps.push_back(std::move(call));
      steps.push_back(place(s));
    }
    list.push_back(llvm::json::Object{{"property", f.property->name},
                                      {"title", f.property->title},
                                      {"message", f.message},
                                      {"possible", f.possible},
                                      {"steps", std::move(steps)}});
  }
  std::size_t functions = 0;
  for (const llvm::Function& f : program.module()) functions += f.isDeclaration() ? 0 : 1;
  llvm::json::Object out{{"findings", std::move(list)},
                         {"lines", static_cast<std::int64_t>(program.lines())},
                         {"functions", static_cast<std::int64_t>(functions)},
                         {"coarse", memory.is_coarse()},
                         {"given_up", static_cast<std::int64_t>(solver.given_up())}};
  llvm::outs() << llvm::json::Value(std::move(out)) << "\n";
  llvm::outs().flush();
  std::_Exit(0);  // a tenth of the time would go into freeing what the system frees at once
}
