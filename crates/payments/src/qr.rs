//! QR codes as SVG, so that a page needs no library to show one.

use fast_qr::convert::svg::SvgBuilder;
use fast_qr::qr::QRBuilder;

/// The longest text. Pay links have about 40 characters; at this length a phone still reads the code from a screen.
const MAX_TEXT: usize = 512;

/// The QR code of a text as an SVG image; none if the text is empty or too long for one.
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
    fn a_pay_link_becomes_an_image() {
        let svg = qr_svg("weixin://wxpay/bizpayurl?pr=JyC91EIz1").unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
        assert_ne!(qr_svg("weixin://wxpay/bizpayurl?pr=JyC91EIz2"), Some(svg), "the text decides the code");
        assert_eq!(qr_svg(""), None);
        assert!(qr_svg(&"x".repeat(MAX_TEXT)).is_some());
        assert_eq!(qr_svg(&"x".repeat(MAX_TEXT + 1)), None);
    }
}
