package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var errEmpty = errors.New("is empty")

// CheckName returns an error for a text that cannot be a name, because names
// are compared exactly. The error is a phrase like "is empty", to follow the
// name.
func CheckName(name string) error {
	switch {
	case name == "":
		return errEmpty
	case strings.TrimSpace(name) != name:
		return errors.New("begins or ends with a space")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("contains a control character")
	}
	return nil
}

// Hidden reports whether people do not see a character, or not the same everywhere: controls,
// formats such as zero-width spaces, soft hyphens and those that turn text around, separators of lines,
// fillers and private use.
func Hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs,
		unicode.Other_Default_Ignorable_Code_Point)
}

// CheckVisible returns an error for a name that looks like another one, because people do not see
// all of it. The error is a phrase, to follow the name.
func CheckVisible(name string) error {
	if at := strings.IndexFunc(name, Hidden); at >= 0 {
		r, _ := utf8.DecodeRuneInString(name[at:])
		return fmt.Errorf("contains a character that people do not see, or that changes the direction of text: %U", r)
	}
	return nil
}

// NormalName returns the name of a user in NFC, the form in which names of users are
// compared. People cannot tell its forms apart, and keyboards send one or another.
func NormalName(name string) string {
	if isASCII(name) {
		return name // it is in NFC, and this needs little stack
	}
	return norm.NFC.String(name)
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// FoldName returns one form for all names that differ only in outer space, in case, or
// in their Unicode normalization (the compatibility forms too).
func FoldName(name string) string {
	name = strings.TrimSpace(name)
	if isASCII(name) {
		return strings.ToLower(name)
	}
	return strings.Map(foldRune, norm.NFKD.String(name))
}

// foldRune returns the lower case of the first of the characters that are r in another
// case: there may be several, as σ and ς.
func foldRune(r rune) rune {
	first := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		first = min(first, next)
	}
	return unicode.ToLower(first)
}

// CheckRole returns an error for a text that cannot name a role. Upstreams
// receive roles as a list separated by commas, so a role has none.
func CheckRole(role string) error {
	if strings.Contains(role, ",") {
		return errors.New("contains a comma; write each role as an entry of its own")
	}
	return CheckName(role)
}

// CheckScope returns an error for a text that is no OAuth scope (RFC 6749, section 3.3).
func CheckScope(scope string) error {
	if scope == "" {
		return errEmpty
	}
	for i := range len(scope) {
		if c := scope[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return errors.New(`is not one scope; use visible ASCII characters except " and \, ` +
				`and write each scope as an entry of its own`)
		}
	}
	return nil
}

// CheckClaim returns an error for a text that is neither the name of a claim
// nor a dotted path, as LookupClaim takes it.
func CheckClaim(path string) error {
	if strings.Trim(path, ".") == "" {
		return errors.New("is not the name of a claim; expected one like department or realm_access.roles")
	}
	return nil
}

// splitUser splits an entry of Spec.Users into provider and username. The username of an OAuth
// client is the whole entry.
func splitUser(entry string) (provider, name string) {
	provider, name, found := strings.Cut(entry, ":")
	switch {
	case !found:
		return LocalProvider, entry
	case provider == ClientProvider && name != "":
		return provider, entry
	}
	return provider, name
}

func checkUser(entry string) error {
	provider, name := splitUser(entry)
	if entry != "" && (provider == "" || name == "") {
		return errors.New("lacks a part; expected a local account like alice, or PROVIDER:username")
	}
	if err := CheckName(provider); err != nil {
		return err
	}
	return CheckName(name)
}

// checkActor accepts OAuth clients, which alone act for others.
func checkActor(entry string) error {
	if provider, name := splitUser(entry); provider != ClientProvider || name == "" {
		return errors.New("is not an OAuth client that acts for users; expected client:ID")
	}
	return CheckName(entry)
}

func checkDomain(domain string) error {
	if strings.Contains(domain, "@") {
		return errors.New("contains an @; expected only the part after it, like example.org")
	}
	if err := CheckASCII(domain); err != nil {
		return err
	}
	if err := checkHostname(domain); err != nil {
		return errors.New(err.Error() + "; expected a domain like example.org")
	}
	return nil
}

// CheckMechanism returns an error unless the name is that of a way to prove an identity.
func CheckMechanism(name string) error {
	switch m := Mechanism(name); {
	case m == None:
		return errors.New("proves no identity; expected " + MechanismWords())
	case !m.proves():
		return errors.New("is not a mechanism; expected " + MechanismWords())
	}
	return nil
}

// checkMethod accepts tokens (RFC 9110, section 5.6.2) without lower-case
// letters. Methods are case-sensitive, so one in lower case is a mistake.
func checkMethod(method string) error {
	if method == "" {
		return errEmpty
	}
	for i := range len(method) {
		c := method[i]
		if 'a' <= c && c <= 'z' {
			return errors.New("is not in upper case; did you mean " + strings.ToUpper(method) + "?")
		}
		if !('A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return errors.New("is not a method; expected one like GET")
		}
	}
	return nil
}

func checkClaimValue(value string) error {
	if value == "" {
		return errEmpty
	}
	return nil
}
