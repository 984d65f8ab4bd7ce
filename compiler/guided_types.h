// What the marks of strata/guided.h say of a type: whether its objects hold guides, and how these
// may be copied and moved. A part of the clang half of the plugin (guided_checks.cpp).
#pragma once

#include "clang/AST/ASTContext.h"
#include "clang/AST/Attr.h"
#include "clang/AST/DeclCXX.h"

inline bool IsMarked(const clang::Decl* d, llvm::StringRef as) {
  for (const auto* a : d->specific_attrs<clang::AnnotateAttr>())
    if (a->getAnnotation() == as) return true;
  return false;
}
inline bool IsGuided(const clang::Decl* d) { return IsMarked(d, "strata::guided"); }

// Itself, in a base or in a member.
inline bool HoldsGuides(clang::QualType type) {
  const clang::CXXRecordDecl* r = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  if (r == nullptr || !r->hasDefinition()) return false;
  for (const clang::FieldDecl* f : r->fields())
    if (IsGuided(f) || HoldsGuides(f->getType())) return true;
  for (const clang::CXXBaseSpecifier& b : r->bases())
    if (HoldsGuides(b.getType())) return true;
  return false;
}

// In registers, or by a copy that no constructor sees: a guide in it would not know that it moved.
inline bool PassesAsBytes(clang::QualType type) {
  const clang::CXXRecordDecl* r = type->getAsCXXRecordDecl();
  return r != nullptr && HoldsGuides(type) && r->canPassInRegisters();
}

inline bool MovesByBytes(const clang::CXXRecordDecl* r, const clang::ASTContext& context) {
  for (const clang::FieldDecl* f : r->fields()) {
    const clang::QualType type = context.getBaseElementType(f->getType());
    if (IsGuided(f) || type.isTriviallyCopyableType(context)) continue;
    if (!HoldsGuides(type) || !MovesByBytes(type->getAsCXXRecordDecl(), context)) return false;
  }
  for (const clang::CXXBaseSpecifier& b : r->bases()) {
    const clang::CXXRecordDecl* base = b.getType()->getAsCXXRecordDecl();
    if (base == nullptr || !MovesByBytes(base, context)) return false;
  }
  return true;
}
