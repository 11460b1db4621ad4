//! seckill.
