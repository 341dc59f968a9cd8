//! Tests of the policy.

mod support;

mod commands;
