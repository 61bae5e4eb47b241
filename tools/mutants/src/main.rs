// SPDX-License-Identifier: GPL-2.0

//! mutants ROOT FILE...: lists the mutants of Rust sources, one JSON object a line.
//!
//! A mutant is a small change of behaviour that some test should notice. It has:
//!
//! * `file`, `line`: the place, relative to ROOT;
//! * `op`: the operator that made it (`compare`, `logic`, `negate`, `arithmetic`, `literal`,
//!   `call`, `remove`, `return`, `arms`, `token`);
//! * `old`, `new`: what a reader is shown;
//! * `own`: the place is evaluated at compile time, or is inside a macro, so the mutant needs a
//!   build of its own. All others can be chosen at run time: see `tools/mutants.py`;
//! * `const_fn`: the place is in a `const fn`, which may be evaluated at compile time too;
//! * `edits`: byte ranges with the text that replaces them and the form of the place (`expr`,
//!   `stmt`, `arm`, `start` of a function's body).
//!
//! Patterns, types, attributes, compile-time assertions, `Debug` implementations and test
//! modules are left alone. Type errors are not: a mutant that does not compile is dropped by
//! the caller.

use std::fmt::Write as _;
use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, ReturnType, Stmt, Type, UnOp};

/// Calls that are swapped for each other.
const CALLS: &[(&str, &str)] = &[
    ("wrapping_add", "wrapping_sub"),
    ("saturating_add", "saturating_sub"),
    ("checked_add", "checked_sub"),
    ("min", "max"),
    ("is_some", "is_none"),
    ("any", "all"),
    ("is_some_and", "is_none_or"),
    ("from_be_bytes", "from_le_bytes"),
    ("to_be_bytes", "to_le_bytes"),
    ("first", "last"),
    ("take_while", "skip_while"),
];

/// Integers, for default answers and literals.
const INTEGERS: &[&str] = &[
    "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize",
];

/// One replacement.
struct Edit {
    range: Range<usize>,
    new: String,
    form: &'static str,
}

/// One file being read.
struct File<'a> {
    name: &'a str,
    text: &'a str,
    /// Inside what is evaluated at compile time only.
    constant: bool,
    /// Inside what may be.
    const_fn: bool,
    out: String,
}

fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// One line, of a length that can be read.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(90) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// The other operators that may stand for this one.
fn others(op: &BinOp) -> (&'static str, &'static [&'static str]) {
    match op {
        BinOp::Lt(_) => ("compare", &["<=", ">="]),
        BinOp::Le(_) => ("compare", &["<", ">"]),
        BinOp::Gt(_) => ("compare", &[">=", "<="]),
        BinOp::Ge(_) => ("compare", &[">", "<"]),
        BinOp::Eq(_) => ("compare", &["!="]),
        BinOp::Ne(_) => ("compare", &["=="]),
        BinOp::And(_) => ("logic", &["||"]),
        BinOp::Or(_) => ("logic", &["&&"]),
        BinOp::Add(_) => ("arithmetic", &["-"]),
        BinOp::Sub(_) => ("arithmetic", &["+"]),
        BinOp::Mul(_) => ("arithmetic", &["/"]),
        BinOp::Div(_) => ("arithmetic", &["*"]),
        BinOp::Rem(_) => ("arithmetic", &["/"]),
        BinOp::Shl(_) => ("arithmetic", &[">>"]),
        BinOp::Shr(_) => ("arithmetic", &["<<"]),
        BinOp::BitAnd(_) => ("arithmetic", &["|"]),
        BinOp::BitOr(_) => ("arithmetic", &["&"]),
        BinOp::BitXor(_) => ("arithmetic", &["|"]),
        BinOp::AddAssign(_) => ("arithmetic", &["-="]),
        BinOp::SubAssign(_) => ("arithmetic", &["+="]),
        BinOp::BitAndAssign(_) => ("arithmetic", &["|="]),
        BinOp::BitOrAssign(_) => ("arithmetic", &["&="]),
        BinOp::ShlAssign(_) => ("arithmetic", &[">>="]),
        BinOp::ShrAssign(_) => ("arithmetic", &["<<="]),
        _ => ("", &[]),
    }
}

/// Whether an attribute list names tests.
fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

impl File<'_> {
    fn mutant(&mut self, op: &str, line: usize, old: &str, new: &str, own: bool, edits: &[Edit]) {
        let places: Vec<_> = edits
            .iter()
            .map(|edit| {
                format!(
                    "[{},{},{},{}]",
                    edit.range.start,
                    edit.range.end,
                    json(&edit.new),
                    json(edit.form)
                )
            })
            .collect();
        let _ = writeln!(
            self.out,
            "{{\"file\":{},\"line\":{line},\"op\":\"{op}\",\"old\":{},\"new\":{},\"own\":{},\"const_fn\":{},\"edits\":[{}]}}",
            json(self.name),
            json(&short(old)),
            json(&short(new)),
            own || self.constant,
            self.const_fn,
            places.join(",")
        );
    }

    fn text(&self, node: &impl Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    /// A mutant that replaces one expression.
    fn swap(&mut self, op: &str, at: &impl Spanned, place: &impl Spanned, new: String) {
        let range = place.span().byte_range();
        let (line, old) = (at.span().start().line, self.text[range.clone()].to_owned());
        let edit = Edit {
            range,
            new: new.clone(),
            form: "expr",
        };
        self.mutant(op, line, &old, &new, false, &[edit]);
    }

    /// The text of a place with a part of it replaced.
    fn with(&self, place: &impl Spanned, part: &impl Spanned, new: &str) -> String {
        let (whole, part) = (place.span().byte_range(), part.span().byte_range());
        let text = self.text;
        format!(
            "{}{new}{}",
            &text[whole.start..part.start],
            &text[part.end..whole.end]
        )
    }

    fn condition(&mut self, cond: &Expr) {
        match cond {
            Expr::Let(_) => {}
            // These have mutants of their own that are better.
            Expr::Binary(binary) if !others(&binary.op).1.is_empty() => {}
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {}
            Expr::Lit(_) => {}
            _ => {
                let new = format!("!({})", self.text(cond));
                self.swap("negate", cond, cond, new);
            }
        }
    }

    /// Default answers instead of a function's body.
    fn body(&mut self, sig: &syn::Signature, block: &syn::Block) {
        let answers: Vec<&str> = match &sig.output {
            ReturnType::Default => vec![""],
            ReturnType::Type(_, ty) => match self.text(&**ty) {
                "bool" => vec!["true", "false"],
                "Result" | "Result<()>" => vec!["Ok(())"],
                name if INTEGERS.contains(&name) => vec!["0", "1"],
                name if name.starts_with("Option<") => vec!["None"],
                name if name.starts_with("Result<(),") => vec!["Ok(())"],
                name if name.starts_with("impl ") => vec![],
                _ => vec![],
            },
        };
        let body = self.text(block);
        let only = body[1..body.len() - 1].trim().to_owned();
        let start = block.brace_token.span.open().byte_range().end;
        let line = sig.fn_token.span.start().line;
        let old = format!("fn {} {{ ... }}", sig.ident);
        for answer in answers {
            if only == answer {
                continue;
            }
            let new = format!("return {answer};").replace(" ;", ";");
            let shown = format!("fn {} {{ {new} }}", sig.ident);
            let edit = Edit {
                range: start..start,
                new,
                form: "start",
            };
            self.mutant("return", line, &old, &shown, false, &[edit]);
        }
    }

    /// Operators and numbers inside a macro, which are tokens only.
    fn tokens(&mut self, tokens: TokenStream) {
        const PAIRS: &[(&str, &str)] = &[
            ("==", "!="),
            ("!=", "=="),
            ("<=", "<"),
            (">=", ">"),
            ("&&", "||"),
            ("||", "&&"),
            ("+=", "-="),
            ("-=", "+="),
            ("<<", ">>"),
            (">>", "<<"),
            ("+", "-"),
            ("-", "+"),
            ("*", "/"),
            ("%", "/"),
            ("&", "|"),
            ("<", "<="),
            (">", ">="),
        ];
        let mut last = 0;
        for token in tokens {
            let span = token.span();
            let range = span.byte_range();
            let line = span.start().line;
            let put = |this: &mut Self, range: Range<usize>, new: String| {
                let old = this.text[range.clone()].to_owned();
                let edit = Edit {
                    range,
                    new: new.clone(),
                    form: "token",
                };
                this.mutant("token", line, &old, &new, true, &[edit]);
            };
            match token {
                TokenTree::Group(group) if group.delimiter() != Delimiter::None => {
                    self.tokens(group.stream());
                }
                TokenTree::Group(_) => {}
                TokenTree::Ident(ident) => {
                    let name = ident.to_string();
                    for (a, b) in CALLS {
                        if name == *a {
                            put(self, range.clone(), (*b).to_owned());
                        } else if name == *b {
                            put(self, range.clone(), (*a).to_owned());
                        }
                    }
                }
                TokenTree::Punct(_) if range.start >= last => {
                    let rest = &self.text[range.start..];
                    // An operator of rustfmt's has spaces around it; generics and references
                    // have not.
                    let spaced = self.text[..range.start].ends_with(' ');
                    let pair = PAIRS
                        .iter()
                        .find(|(a, _)| rest.starts_with(a) && rest[a.len()..].starts_with(' '));
                    if let Some((a, b)) = pair.filter(|_| spaced) {
                        last = range.start + a.len();
                        put(self, range.start..last, (*b).to_owned());
                    }
                }
                TokenTree::Punct(_) => {}
                TokenTree::Literal(literal) => {
                    if let Ok(Lit::Int(int)) = syn::parse_str::<Lit>(&literal.to_string()) {
                        if let Ok(n) = int.base10_parse::<u64>() {
                            put(self, range, format!("{}{}", n + 1, int.suffix()));
                        }
                    }
                }
            }
        }
    }

    fn function(&mut self, sig: &syn::Signature, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.const_fn, sig.constness.is_some());
        walk(self);
        self.const_fn = before;
    }

    fn constant(&mut self, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.constant, true);
        walk(self);
        self.constant = before;
    }
}

impl<'ast> Visit<'ast> for File<'_> {
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        // `const _` is a compile-time assertion.
        if item.ident != "_" {
            self.constant(|this| visit::visit_item_const(this, item));
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant(|this| visit::visit_item_static(this, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(|this| visit::visit_impl_item_const(this, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.constant(|this| visit::visit_trait_item_const(this, item));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.constant(|this| this.visit_expr(&repeat.len));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.constant(|this| visit::visit_expr_const(this, block));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.constant(|this| visit::visit_variant(this, variant));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let debug = item.trait_.as_ref().is_some_and(|(_, path, _)| {
            path.segments
                .last()
                .is_some_and(|last| last.ident == "Debug")
        });
        if !debug && !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, |this| {
                this.body(&item.sig, &item.block);
                visit::visit_item_fn(this, item);
            });
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, |this| {
                this.body(&item.sig, &item.block);
                visit::visit_impl_item_fn(this, item);
            });
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(semi)) = stmt {
            let acts = match expr {
                Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) | Expr::Try(_) => true,
                Expr::Binary(binary) => !others(&binary.op).1.is_empty(),
                _ => false,
            };
            if acts {
                let range = expr.span().byte_range().start..semi.span().byte_range().end;
                let old = self.text[range.clone()].to_owned();
                let edit = Edit {
                    range,
                    new: String::new(),
                    form: "stmt",
                };
                let line = expr.span().start().line;
                self.mutant("remove", line, &old, "(removed)", false, &[edit]);
            }
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr_if(&mut self, item: &'ast syn::ExprIf) {
        self.condition(&item.cond);
        visit::visit_expr_if(self, item);
    }

    fn visit_expr_while(&mut self, item: &'ast syn::ExprWhile) {
        self.condition(&item.cond);
        visit::visit_expr_while(self, item);
    }

    fn visit_expr_match(&mut self, item: &'ast syn::ExprMatch) {
        for arm in &item.arms {
            if let Some((_, guard)) = &arm.guard {
                self.condition(guard);
            }
        }
        for pair in item.arms.windows(2) {
            let [a, b] = pair else { continue };
            let (old, new) = (
                self.text(&*a.body).to_owned(),
                self.text(&*b.body).to_owned(),
            );
            if short(&old) == short(&new) {
                continue;
            }
            let edits = [
                Edit {
                    range: a.body.span().byte_range(),
                    new: new.clone(),
                    form: "arm",
                },
                Edit {
                    range: b.body.span().byte_range(),
                    new: old,
                    form: "arm",
                },
            ];
            let line = a.body.span().start().line;
            let shown = (short(&self.text[edits[0].range.clone()]), short(&new));
            let swapped = format!("{} (and the reverse)", shown.1);
            self.mutant("arms", line, &shown.0, &swapped, false, &edits);
        }
        visit::visit_expr_match(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let (kind, new) = others(&binary.op);
        for op in new {
            let text = self.with(binary, &binary.op, op);
            self.swap(kind, &binary.op, binary, text);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, UnOp::Not(_)) {
            let new = self.text(&*unary.expr).to_owned();
            self.swap("negate", unary, unary, new);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        for (a, b) in CALLS {
            for (from, to) in [(a, b), (b, a)] {
                if call.method == from {
                    let new = self.with(call, &call.method, to);
                    self.swap("call", &call.method, call, new);
                }
            }
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*call.func {
            if let Some(last) = path.path.segments.last() {
                for (a, b) in CALLS {
                    for (from, to) in [(a, b), (b, a)] {
                        if last.ident == from {
                            let new = self.with(call, &last.ident, to);
                            self.swap("call", &last.ident, call, new);
                        }
                    }
                }
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_lit(&mut self, lit: &'ast syn::ExprLit) {
        match &lit.lit {
            Lit::Bool(value) => {
                let new = (!value.value).to_string();
                self.swap("literal", lit, lit, new);
            }
            Lit::Int(int) => {
                let Ok(n) = int.base10_parse::<u64>() else {
                    return;
                };
                let suffix = int.suffix();
                let mut news = vec![n.saturating_add(1)];
                if n > 0 {
                    news.push(n - 1);
                }
                if n > 1 {
                    news.push(0);
                }
                for new in news {
                    self.swap("literal", lit, lit, format!("{new}{suffix}"));
                }
            }
            _ => {}
        }
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        let name = mac
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string())
            .unwrap_or_default();
        if name == "matches" && !self.constant {
            let new = format!("!{}", self.text(mac));
            self.swap("negate", mac, mac, new);
        } else if !name.contains("assert") && !name.starts_with("write") {
            self.tokens(mac.tokens.clone());
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let root = args.next().unwrap_or_default();
    for name in args {
        let path = format!("{root}/{name}");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("error: {path}: {error}");
                std::process::exit(2);
            }
        };
        let file = match syn::parse_file(&text) {
            Ok(file) => file,
            Err(error) => {
                eprintln!("error: {path}: {error}");
                std::process::exit(2);
            }
        };
        let mut reader = File {
            name: &name,
            text: &text,
            constant: false,
            const_fn: false,
            out: String::new(),
        };
        reader.visit_file(&file);
        print!("{}", reader.out);
    }
}
