// The clang half of the plugin: refuses what a guided field must not be used for, at its source
// line, and sends `new T` of what guided fields point to into the domain (strata/guided.h). The
// LLVM half is hooks_pass.cpp. Sits in compiler.
#include <set>

#include "clang/AST/ASTConsumer.h"
#include "clang/AST/ParentMapContext.h"
#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"

using namespace clang;

namespace {

bool IsGuided(const Decl* d) {
  for (const auto* a : d->specific_attrs<AnnotateAttr>())
    if (a->getAnnotation() == "strata::guided") return true;
  return false;
}

// Itself, in a base or in a member.
bool HoldsGuides(QualType type) {
  const CXXRecordDecl* r = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  if (r == nullptr || !r->hasDefinition()) return false;
  for (const FieldDecl* f : r->fields())
    if (IsGuided(f) || HoldsGuides(f->getType())) return true;
  for (const CXXBaseSpecifier& b : r->bases())
    if (HoldsGuides(b.getType())) return true;
  return false;
}

class Checks : public RecursiveASTVisitor<Checks> {
 public:
  explicit Checks(ASTContext& context) : context_(context) {}
  bool shouldVisitTemplateInstantiations() const { return true; }
  bool shouldVisitImplicitCode() const { return true; }

  // What lies above an expression is known within one declaration, which is whole by now.
  void Visit(Decl* d) {
    context_.setTraversalScope({d});
    TraverseDecl(d);
    context_.setTraversalScope({context_.getTranslationUnitDecl()});
  }

  bool VisitFieldDecl(FieldDecl* f) {
    if (!IsGuided(f)) return true;
    const QualType type = context_.getBaseElementType(f->getType());
    if (f->getParent()->isUnion()) return Refuse(f->getLocation(), "a guided field in a union");
    if (type->isDependentType()) return true;
    if (!type->isPointerType() || !type->getPointeeType()->isRecordType())
      return Refuse(f->getLocation(), "a guided field that is no pointer to a class");
    const CXXRecordDecl* r = type->getPointeeType()->getAsCXXRecordDecl()->getCanonicalDecl();
    if (plain_.count(r) != 0)
      return Refuse(f->getLocation(), "a field marked guided after a `new` of what it points to");
    pointees_.insert(r);
    return true;
  }

  bool VisitVarDecl(VarDecl* v) {
    if (IsGuided(v)) Refuse(v->getLocation(), "a guided variable; mark a field of a class");
    return true;
  }

  bool VisitMemberExpr(MemberExpr* e) {
    if (IsGuided(e->getMemberDecl())) Use(e);
    return true;
  }

  bool VisitCXXConstructExpr(CXXConstructExpr* e) {
    const CXXConstructorDecl* c = e->getConstructor();
    if (c->isCopyOrMoveConstructor() && !c->isUserProvided() && HoldsGuides(e->getType()))
      Refuse(e->getBeginLoc(), "a copy of an object with guided fields");
    return true;
  }
  bool VisitCallExpr(CallExpr* e) {
    const auto* m = dyn_cast_or_null<CXXMethodDecl>(e->getCalleeDecl());
    if (m != nullptr && !m->isUserProvided() &&
        (m->isCopyAssignmentOperator() || m->isMoveAssignmentOperator()) &&
        HoldsGuides(context_.getRecordType(m->getParent())))
      Refuse(e->getExprLoc(), "a copy of an object with guided fields");
    return true;
  }

  bool VisitCXXNewExpr(CXXNewExpr* e) {
    const CXXRecordDecl* r = e->getAllocatedType()->getAsCXXRecordDecl();
    if (r == nullptr || e->getNumPlacementArgs() != 0 || e->isInstantiationDependent()) return true;
    if (pointees_.count(r->getCanonicalDecl()) == 0) {
      plain_.insert(r->getCanonicalDecl());
      return true;
    }
    if (e->isArray()) return Refuse(e->getBeginLoc(), "an array of what guided fields point to");
    if (!MovesByBytes(r)) return Refuse(e->getBeginLoc(), "an object that bytes cannot move");
    if (context_.getTypeAlign(e->getAllocatedType()) > 128)
      return Refuse(e->getBeginLoc(), "an object aligned to more than 16 bytes");
    if (FunctionDecl* heap = HeapNew()) e->setOperatorNew(heap);
    return true;
  }

 private:
  bool Refuse(SourceLocation where, StringRef what) {
    if (!refused_.insert(where.getRawEncoding()).second) return true;
    DiagnosticsEngine& d = context_.getDiagnostics();
    const unsigned id = d.getCustomDiagID(DiagnosticsEngine::Error, "strata: %0 is not supported");
    d.Report(where, id) << what;
    return true;
  }

  const Expr* Above(const Expr* e) {
    for (;;) {
      const auto parents = context_.getParents(*e);
      const Expr* up = parents.empty() ? nullptr : parents[0].get<Expr>();
      if (up == nullptr || !isa<ParenExpr>(up)) return up;
      e = up;
    }
  }

  // An lvalue that no expression stands above: returned, or bound to a variable, or dropped.
  bool Binds(const Expr* e) {
    const auto parents = context_.getParents(*e);
    return parents.empty() || parents[0].get<ReturnStmt>() != nullptr ||
           parents[0].get<VarDecl>() != nullptr || parents[0].get<ParenExpr>() != nullptr;
  }

  // From the lvalue of the field, or of an element of it, to what is done with it.
  void Use(const Expr* lvalue) {
    const Expr* up = Above(lvalue);
    if (up == nullptr) {
      if (Binds(lvalue)) Refuse(lvalue->getExprLoc(), "taking the address of a guided field");
      return;
    }
    if (const auto* cast = dyn_cast<ImplicitCastExpr>(up)) {
      if (cast->getCastKind() == CK_LValueToRValue) return Value(cast);
      if (cast->getCastKind() == CK_ArrayToPointerDecay) {
        const auto* element = dyn_cast_or_null<ArraySubscriptExpr>(Above(cast));
        if (element != nullptr) return Use(element);
      }
    }
    if (const auto* b = dyn_cast<BinaryOperator>(up)) {
      if (b->getOpcode() == BO_Assign && b->getLHS()->IgnoreParens() == lvalue->IgnoreParens()) {
        const Expr* further = Above(b);
        if ((further == nullptr && !Binds(b)) ||
            (isa<ImplicitCastExpr>(further) &&
             cast<ImplicitCastExpr>(further)->getCastKind() == CK_LValueToRValue))
          return;
      }
      if (isa<CompoundAssignOperator>(b)) {
        Refuse(lvalue->getExprLoc(), "arithmetic with a guided pointer");
        return;
      }
    }
    const auto* u = dyn_cast<UnaryOperator>(up);
    if (u != nullptr && u->isIncrementDecrementOp())
      Refuse(lvalue->getExprLoc(), "arithmetic with a guided pointer");
    else
      Refuse(lvalue->getExprLoc(), "taking the address of a guided field");
  }

  void Value(const Expr* value) {
    const Expr* up = Above(value);
    if (up == nullptr) return;
    if (const auto* b = dyn_cast<BinaryOperator>(up); b != nullptr && b->isAdditiveOp())
      Refuse(value->getExprLoc(), "arithmetic with a guided pointer");
    else if (isa<ArraySubscriptExpr>(up))
      Refuse(value->getExprLoc(), "indexing of a guided pointer");
    else if (const auto* c = dyn_cast<CastExpr>(up);
             c != nullptr &&
             (c->getCastKind() == CK_PointerToIntegral || c->getCastKind() == CK_BitCast) &&
             isa<ExplicitCastExpr>(c))
      Refuse(value->getExprLoc(), "reinterpretation of a guided pointer");
  }

  bool MovesByBytes(const CXXRecordDecl* r) {
    for (const FieldDecl* f : r->fields()) {
      const QualType type = context_.getBaseElementType(f->getType());
      if (IsGuided(f) || type.isTriviallyCopyableType(context_)) continue;
      if (!HoldsGuides(type) || !MovesByBytes(type->getAsCXXRecordDecl())) return false;
    }
    for (const CXXBaseSpecifier& b : r->bases()) {
      const CXXRecordDecl* base = b.getType()->getAsCXXRecordDecl();
      if (base == nullptr || !MovesByBytes(base)) return false;
    }
    return true;
  }

  FunctionDecl* HeapNew() {
    for (NamedDecl* d :
         context_.getTranslationUnitDecl()->lookup(&context_.Idents.get("strata_guided_heap"))) {
      auto* r = dyn_cast<CXXRecordDecl>(d);
      if (r == nullptr) continue;
      const DeclarationName name = context_.DeclarationNames.getCXXOperatorName(OO_New);
      for (NamedDecl* m : r->getDefinition()->lookup(name)) {
        auto* f = cast<FunctionDecl>(m);
        f->markUsed(context_);
        return f;
      }
    }
    return nullptr;
  }

  ASTContext& context_;
  std::set<const CXXRecordDecl*> pointees_, plain_;
  std::set<unsigned> refused_;
};

class Consumer : public ASTConsumer {
 public:
  void Initialize(ASTContext& context) override { checks_ = std::make_unique<Checks>(context); }
  bool HandleTopLevelDecl(DeclGroupRef group) override {
    for (Decl* d : group) checks_->Visit(d);
    return true;
  }

 private:
  std::unique_ptr<Checks> checks_;
};

class Action : public PluginASTAction {
 protected:
  std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance&, StringRef) override {
    return std::make_unique<Consumer>();
  }
  bool ParseArgs(const CompilerInstance&, const std::vector<std::string>&) override { return true; }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

FrontendPluginRegistry::Add<Action> g_checks("strata-guided", "guided pointers of Strata");

}  // namespace
