//! QR codes as SVG images, so that a page needs no library to show one.

use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::QRBuilder;

/// The longest text, in bytes. Payment links have about 40; a phone can still scan a code of this length from a screen.
const MAX_TEXT: usize = 512;

/// The QR code of a text as an SVG image; `None` if the text is empty or too long.
pub fn qr_svg(text: &str) -> Option<String> {
    if text.is_empty() || text.len() > MAX_TEXT {
        return None;
    }
    let code = QRBuilder::new(text).build().ok()?;
    Some(SvgBuilder::default().to_str(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_link_becomes_an_image() {
        let svg = qr_svg("weixin://wxpay/bizpayurl?pr=JyC91EIz1").unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
        assert_ne!(qr_svg("weixin://wxpay/bizpayurl?pr=JyC91EIz2"), Some(svg), "another text, another code");
        assert_eq!(qr_svg(""), None);
        assert!(qr_svg(&"x".repeat(MAX_TEXT)).is_some());
        assert_eq!(qr_svg(&"x".repeat(MAX_TEXT + 1)), None);
    }
}
