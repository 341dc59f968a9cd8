//! Tests of the sandbox as users of the library see it. Escapes and everyday work are tests of the program, which is the
//! first process of each sandbox.

mod requests;
