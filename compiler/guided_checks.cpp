// The clang half of the plugin: refuses what a guided field must not be used for, at its source
// line, and sends `new T` of what guided fields point to into the domain (strata/guided.h). The
// LLVM half is hooks_pass.cpp. Sits in compiler.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "clang/AST/ASTConsumer.h"
#include "clang/AST/ParentMapContext.h"
#include "clang/AST/RecordLayout.h"
#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"
#include "guided_types.h"

using namespace clang;

namespace {

constexpr char kAddress[] =
    "the address of a guided field, or a reference to it (read it into a variable first),";
constexpr char kByValue[] =
    "an object with guided fields by value (refer to it, or give it a move constructor)";

// By `new` in one place, by `delete` in another: both must be ours.
bool HasOwnHeap(const CXXRecordDecl* r, ASTContext& context) {
  for (const OverloadedOperatorKind op : {OO_New, OO_Delete})
    if (!r->lookup(context.DeclarationNames.getCXXOperatorName(op)).empty()) return true;
  for (const CXXBaseSpecifier& b : r->bases()) {
    const CXXRecordDecl* base = b.getType()->getAsCXXRecordDecl();
    if (base != nullptr && HasOwnHeap(base, context)) return true;
  }
  return false;
}

class Checks : public RecursiveASTVisitor<Checks> {
 public:
  explicit Checks(ASTContext& context) : context_(context) {}
  bool shouldVisitTemplateInstantiations() const { return true; }
  bool shouldVisitImplicitCode() const { return true; }
  // Of a template only what is made of it is judged: before, no types are known, and no reads.
  bool TraverseDecl(Decl* d) {
    const auto* c = dyn_cast_or_null<DeclContext>(d);
    if (c != nullptr && c->isDependentContext() && (isa<FunctionDecl>(d) || isa<CXXRecordDecl>(d)))
      return true;
    return RecursiveASTVisitor::TraverseDecl(d);
  }

  // What lies above an expression is known within one declaration, which is whole by now.
  void Visit(Decl* d) {
    visited_ = dyn_cast<FunctionDecl>(d);
    context_.setTraversalScope({d});
    TraverseDecl(d);
    context_.setTraversalScope({context_.getTranslationUnitDecl()});
  }

  // What is wrong within a library is told at the program's line, when all calls are known.
  void End() {
    for (const InLibraryRefusal& r : in_libraries_) {
      const SourceLocation asked = AskedFor(r.within);
      const SourceLocation where = asked.isValid() ? asked : r.where;
      if (asked.isValid() && !refused_.insert(asked.getRawEncoding()).second) continue;
      Error(where, r.what);
      if (asked.isValid()) Note(r.where);
    }
  }

  // A class that a template was made to is no declaration at the top.
  void VisitClass(CXXRecordDecl* r) {
    if (r->isDependentContext()) return;
    VisitCXXRecordDecl(r);
    for (FieldDecl* f : r->fields()) VisitFieldDecl(f);
  }

  bool VisitCXXRecordDecl(CXXRecordDecl* r) {
    if (!r->isUnion() || !r->isThisDeclarationADefinition() || r->isDependentContext() ||
        context_.getSourceManager().isInSystemHeader(r->getLocation()))
      return true;
    for (const FieldDecl* f : r->fields())
      if (HoldsGuides(f->getType())) Refuse(f->getLocation(), "a guided field in a union");
    return true;
  }

  bool VisitFieldDecl(FieldDecl* f) {
    if (!IsGuided(f)) {
      if (HoldsGuides(f->getType())) CheckAligned(f);
      return true;
    }
    const QualType type = context_.getBaseElementType(f->getType());
    if (f->getParent()->isUnion()) return Refuse(f->getLocation(), "a guided field in a union");
    if (type->isDependentType()) return true;
    if (!type->isPointerType() || !type->getPointeeType()->isRecordType())
      return Refuse(f->getLocation(), "a guided field that is no pointer to a class");
    const CXXRecordDecl* r = type->getPointeeType()->getAsCXXRecordDecl()->getCanonicalDecl();
    if (plain_.count(r) != 0)
      return Refuse(f->getLocation(), "a field marked guided after a `new` of what it points to");
    pointees_.insert(r);
    CheckAligned(f);
    return true;
  }

  bool VisitVarDecl(VarDecl* v) {
    if (IsGuided(v)) Refuse(v->getLocation(), "a guided variable (mark a field of a class)");
    if (v->hasGlobalStorage() && HoldsGuides(v->getType()) &&
        context_.getBaseElementType(v->getType()).isConstQualified())
      Refuse(v->getLocation(), "a constant with guided fields, which reading writes,");
    return true;
  }

  bool VisitFunctionDecl(FunctionDecl* f) {
    if (PassesAsBytes(f->getReturnType())) Refuse(f->getLocation(), kByValue);
    for (const ParmVarDecl* p : f->parameters())
      if (PassesAsBytes(p->getType())) Refuse(p->getLocation(), kByValue);
    if (IsMarked(f, "strata::operation") && isa_and_nonnull<CoroutineBodyStmt>(f->getBody()))
      Refuse(f->getLocation(), "a coroutine as an operation");
    return true;
  }

  bool VisitMemberExpr(MemberExpr* e) {
    if (IsGuided(e->getMemberDecl())) Use(e);
    return true;
  }
  bool VisitDeclRefExpr(DeclRefExpr* e) {
    if (isa<FieldDecl>(e->getDecl()) && IsGuided(e->getDecl()) && !Unevaluated(Above(e)))
      Refuse(e->getExprLoc(), "a pointer to a guided member");
    const auto* b = dyn_cast<BindingDecl>(e->getDecl());  // auto& [a, b] = object
    const auto* m = b == nullptr ? nullptr : dyn_cast_or_null<MemberExpr>(b->getBinding());
    if (m != nullptr && IsGuided(m->getMemberDecl())) Use(e);
    return true;
  }

  bool VisitCXXConstructExpr(CXXConstructExpr* e) {
    const CXXConstructorDecl* c = e->getConstructor();
    NoteCall(c, e->getBeginLoc());
    if (c->isCopyOrMoveConstructor() && !c->isUserProvided() && HoldsGuides(e->getType()))
      Refuse(e->getBeginLoc(), "a copy of an object with guided fields");
    return true;
  }
  bool VisitCXXStdInitializerListExpr(CXXStdInitializerListExpr* e) {
    if (HoldsGuides(e->getSubExpr()->getType()))
      Refuse(e->getBeginLoc(), "a list of objects with guided fields");
    return true;
  }
  bool VisitBuiltinBitCastExpr(BuiltinBitCastExpr* e) {
    if (HoldsGuides(e->getType()) || HoldsGuides(e->getSubExpr()->getType()))
      Refuse(e->getBeginLoc(), "a copy of an object with guided fields");
    return true;
  }
  bool VisitCallExpr(CallExpr* e) {
    NoteCall(e->getDirectCallee(), e->getExprLoc());
    if (const FunctionDecl* f = e->getDirectCallee();
        f != nullptr && TakesBytes(f) && !Zeroes(e, f))
      for (const Expr* a : e->arguments())
        if (PointsToGuides(a)) Refuse(a->getExprLoc(), "bytes of an object with guided fields");
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
    FunctionDecl* heap = HeapNew();
    if (heap == nullptr || e->getOperatorNew() == heap) return true;
    if (HasOwnHeap(r, context_))
      return Refuse(e->getBeginLoc(), "an object of a class with an operator new or delete");
    if (e->isArray()) return Refuse(e->getBeginLoc(), "an array of what guided fields point to");
    if (!MovesByBytes(r, context_))
      return Refuse(e->getBeginLoc(), "an object that bytes cannot move");
    if (context_.getTypeAlign(e->getAllocatedType()) > 128)
      return Refuse(e->getBeginLoc(), "an object aligned to more than 16 bytes");
    e->setOperatorNew(heap);
    return true;
  }

 private:
  bool Refuse(SourceLocation where, StringRef what) {
    if (!refused_.insert(where.getRawEncoding()).second) return true;
    if (InLibrary(where))
      in_libraries_.push_back({where, what.str(), visited_});
    else
      Error(where, what);
    return true;
  }
  void Error(SourceLocation where, StringRef what) {
    DiagnosticsEngine& d = context_.getDiagnostics();
    const unsigned id = d.getCustomDiagID(DiagnosticsEngine::Error, "strata: %0 is not supported");
    d.Report(where, id) << what;
  }
  void Note(SourceLocation where) {
    DiagnosticsEngine& d = context_.getDiagnostics();
    d.Report(where, d.getCustomDiagID(DiagnosticsEngine::Note, "the library does that here"));
  }

  bool InLibrary(SourceLocation where) const {
    return context_.getSourceManager().isInSystemHeader(where);
  }
  void NoteCall(const FunctionDecl* f, SourceLocation where) {
    if (f != nullptr && f->isTemplateInstantiation())
      calls_[f->getCanonicalDecl()].push_back({visited_, where});
  }
  // Where the program asked for what was made of a library's templates; invalid: not known.
  SourceLocation AskedFor(const FunctionDecl* f) const {
    std::set<const FunctionDecl*> seen;
    std::vector<const FunctionDecl*> next{f};
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i] == nullptr || !seen.insert(next[i]->getCanonicalDecl()).second) continue;
      const auto calls = calls_.find(next[i]->getCanonicalDecl());
      if (calls == calls_.end()) continue;
      for (const Call& c : calls->second) {
        if (!InLibrary(c.where)) return c.where;
        next.push_back(c.by);
      }
    }
    return {};
  }

  // What an expression stands in, but for parentheses. A list in braces has two forms, and only the
  // semantic one, with its conversions, says what is done.
  DynTypedNode In(const Expr* e) {
    for (;;) {
      const auto parents = context_.getParents(*e);
      const auto* one = std::find_if(parents.begin(), parents.end(), [e](const DynTypedNode& p) {
        const auto* list = p.get<InitListExpr>();
        if (list != nullptr && list->getSemanticForm() != nullptr) list = list->getSemanticForm();
        return list == nullptr || llvm::is_contained(list->inits(), e);
      });
      if (one == parents.end()) return {};
      const auto* parentheses = one->get<ParenExpr>();
      if (parentheses == nullptr) return *one;
      e = parentheses;
    }
  }
  const Expr* Above(const Expr* e) { return In(e).get<Expr>(); }

  static bool Unevaluated(const Expr* above) {
    return isa_and_nonnull<UnaryExprOrTypeTraitExpr>(above);
  }
  static bool IsRead(const Expr* e) {
    const auto* cast = dyn_cast_or_null<ImplicitCastExpr>(e);
    return cast != nullptr && cast->getCastKind() == CK_LValueToRValue;
  }

  // Whether an lvalue that no expression stands above goes on: returned, bound to a reference,
  // taken by assembler. Else it is dropped, or names a binding, whose uses are looked at
  // themselves.
  bool Binds(const Expr* e) {
    const DynTypedNode in = In(e);
    const auto* s = in.get<Stmt>();
    if (s != nullptr) return isa<ReturnStmt>(s) || isa<AsmStmt>(s);
    return !in.getNodeKind().isNone() && in.get<BindingDecl>() == nullptr &&
           in.get<TypeLoc>() == nullptr;
  }

  // From the lvalue of the field, or of an element of it, to what is done with it.
  void Use(const Expr* lvalue) {
    const Expr* up = Above(lvalue);
    if (up == nullptr) {
      if (Binds(lvalue)) Refuse(lvalue->getExprLoc(), kAddress);
      return;
    }
    if (Unevaluated(up)) return;
    if (IsRead(up)) return Value(up);
    if (isa<ConditionalOperator>(up)) {
      const Expr* read = Above(up);
      while (isa_and_nonnull<ConditionalOperator>(read)) read = Above(read);
      if (IsRead(read)) return Value(read);  // each arm is
    }
    if (const auto* cast = dyn_cast<ImplicitCastExpr>(up);
        cast != nullptr && cast->getCastKind() == CK_ArrayToPointerDecay) {
      const auto* element = dyn_cast_or_null<ArraySubscriptExpr>(Above(cast));
      if (element != nullptr) return Use(element);
    }
    if (const auto* b = dyn_cast<BinaryOperator>(up)) {
      if (b->getOpcode() == BO_Assign && b->getLHS()->IgnoreParens() == lvalue->IgnoreParens()) {
        const Expr* further = Above(b);
        if ((further == nullptr && !Binds(b)) || IsRead(further)) return;
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
      Refuse(lvalue->getExprLoc(), kAddress);
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

  void CheckAligned(const FieldDecl* f) {
    if (f->getParent()->isInvalidDecl()) return;
    const ASTRecordLayout& layout = context_.getASTRecordLayout(f->getParent());
    if (layout.getAlignment().getQuantity() % 8 != 0 ||
        layout.getFieldOffset(f->getFieldIndex()) % 64 != 0)
      Refuse(f->getLocation(), "a guided field that is not aligned");
  }

  static bool TakesBytes(const FunctionDecl* f) {
    static constexpr StringRef kOthers[] = {"realloc", "reallocarray", "qsort", "qsort_r"};
    const IdentifierInfo* name = f->getIdentifier();
    return f->getMemoryFunctionKind() != 0 ||
           (name != nullptr && llvm::is_contained(kOthers, name->getName()));
  }
  // As constructors do.
  bool Zeroes(const CallExpr* e, const FunctionDecl* f) {
    const unsigned kind = f->getMemoryFunctionKind();
    if (kind == Builtin::BIbzero) return true;
    if (kind != Builtin::BImemset || e->getNumArgs() < 2) return false;
    const auto with = e->getArg(1)->getIntegerConstantExpr(context_);
    return with && *with == 0;
  }
  static bool PointsToGuides(const Expr* e) {
    const QualType type = e->IgnoreParenCasts()->getType();
    return HoldsGuides(type->isPointerType() ? type->getPointeeType() : type);
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

  struct Call {
    const FunctionDecl* by;
    SourceLocation where;
  };
  struct InLibraryRefusal {
    SourceLocation where;
    std::string what;
    const FunctionDecl* within;
  };

  ASTContext& context_;
  const FunctionDecl* visited_ = nullptr;
  std::map<const FunctionDecl*, std::vector<Call>> calls_;  // of what templates were made to
  std::vector<InLibraryRefusal> in_libraries_;
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
  void HandleTagDeclDefinition(TagDecl* d) override {
    if (auto* r = dyn_cast<CXXRecordDecl>(d)) checks_->VisitClass(r);
  }
  void HandleTranslationUnit(ASTContext&) override { checks_->End(); }

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
