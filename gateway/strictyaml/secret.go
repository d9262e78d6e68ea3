package strictyaml

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Secret is a value that prints as "[redacted]" wherever it is formatted,
// logged or marshalled. Only Reveal returns the value.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer. It shows only whether there is a secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// GoString implements fmt.GoStringer for %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText implements encoding.TextMarshaler for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Check returns why a text cannot be the secret that is meant: it is blank, or has what
// an editor, a shell or a copy adds to a secret. The error is a phrase like "is
// blank", to follow the name of the secret.
func (s Secret) Check() error {
	text := string(s)
	if strings.TrimSpace(text) == "" {
		return errors.New("is blank")
	}
	if err := checkText(text); err != nil {
		return err
	}
	if strings.TrimSpace(text) != text {
		return errors.New("begins or ends with a space; remove it")
	}
	return nil
}

// byteOrderMark begins files that some editors write.
const byteOrderMark = '\ufeff'

// checkText returns why a text is not one line of UTF-8. The error is a phrase like
// that of Secret.Check.
func checkText(text string) error {
	switch {
	case isUTF16(text):
		return errors.New("is UTF-16; save it as UTF-8")
	case strings.ContainsRune(text, byteOrderMark):
		return errors.New("has a byte order mark; save it as UTF-8 without one")
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8 text; write random bytes in base64, for example with `openssl rand -base64 32`")
	}
	at := strings.IndexFunc(text, unicode.IsControl)
	if at < 0 {
		return nil
	}
	if text[at] == '\n' || text[at] == '\r' {
		return errors.New("has a line break; it must be one line")
	}
	control, _ := utf8.DecodeRuneInString(text[at:])
	return fmt.Errorf("has the control character %U; remove it", control)
}

// isUTF16 reports whether a text begins with a byte order mark of UTF-16, or has a NUL
// beside each character, as ASCII in UTF-16.
func isUTF16(text string) bool {
	mark := strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff")
	return mark || len(text) >= 4 && 2*strings.Count(text, "\x00") >= len(text)-1
}
