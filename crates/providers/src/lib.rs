//! The payment providers as they are reached: settings from Secrets Manager, calls over HTTPS, answers interpreted.
