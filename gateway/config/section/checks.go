package section

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Checks returns the checks that the tags of keys name.
func Checks() map[string]func(d *strictyaml.Document, path, value string) {
	proof := Phrase("%q %v", checkProof)
	return map[string]func(d *strictyaml.Document, path, value string){
		"audience": Phrase("the audience %[2]v", policy.CheckName),
		"claim":    Phrase("%q %v", policy.CheckClaim), // or a dotted path
		"role":     Phrase("the role %[2]v", policy.CheckRole),
		"scope":    Phrase("%q %v", policy.CheckScope),
		"proof":    proof,
		"proofs": func(d *strictyaml.Document, path, value string) {
			for one := range strings.SplitSeq(value, " ") {
				if value != "" {
					proof(d, path, one)
				}
			}
		},
		"text":        Phrase("%[2]v", checkText),
		"line":        Phrase("%q %v", checkLine),
		"host":        Phrase("%q %v", checkOnlyHost),
		"server-name": Phrase("%q is not the name of a host: %v", UnlessEmpty(CheckHost)),
		"name":        Phrase("%q %v", UnlessEmpty(CheckName)),
		"key-name":    Phrase("%q %v", UnlessEmpty(checkKeyName)),
		"base64":      Phrase("%[2]v", checkBase64),
		"service":     Phrase("%[2]v", UnlessEmpty(checkService)),
		"issuer":      checkIssuer,
		"key":         CheckKey,
		"url":         Phrase("%[2]v", UnlessEmpty(checkProviderURL(HTTPURL))),
		"endpoint":    Phrase("%[2]v", UnlessEmpty(checkProviderURL(EndpointURL))),
	}
}

// Phrase returns a check that reports the error of another one. format has the value and the error.
func Phrase(format string, check func(value string) error) func(d *strictyaml.Document, path, value string) {
	return func(d *strictyaml.Document, path, value string) {
		if err := check(value); err != nil {
			d.Fault(path, format, value, err)
		}
	}
}

// UnlessEmpty returns a check that accepts an empty text.
func UnlessEmpty(check func(string) error) func(string) error {
	return func(value string) error {
		if value == "" {
			return nil
		}
		return check(value)
	}
}

// proofValue is what a claim acr, or an entry of amr, can be.
var proofValue = regexp.MustCompile(`^[\x21-\x7e]{1,256}$`)

// checkProof checks a value of a claim that tells how a user signed in.
func checkProof(value string) error {
	if !proofValue.MatchString(value) {
		return errors.New("is not a value of a claim that tells how a user signed in; expected one without spaces " +
			"and control characters")
	}
	return nil
}

// checkText checks a text for users.
func checkText(text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("contains a control character or a line break")
	}
	return nil
}

// checkLine checks a text in one line.
func checkLine(text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("contains a control character")
	}
	return nil
}

// checkOnlyHost checks a host without a port.
func checkOnlyHost(host string) error {
	if err := policy.CheckASCII(host); err != nil {
		return err
	}
	if CheckHost(host) != nil {
		return errors.New("is not a host; expected only a name or an address, like www.example.org")
	}
	return nil
}

// plainName matches names without a colon, which separates the parts of PROVIDER:username.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckName checks a plain name.
func CheckName(name string) error {
	if !plainName.MatchString(name) {
		return errors.New("is not a valid name; use letters, digits, dots, - and _, and begin with a letter or digit")
	}
	return nil
}

// checkKeyName checks the name of a TSIG key (RFC 8945), which has the form of a domain.
func checkKeyName(name string) error {
	if CheckHost(strings.TrimSuffix(name, ".")) != nil {
		return errors.New("is not the name of a key, like authgate-key")
	}
	return nil
}

func checkBase64(text string) error {
	if _, err := base64.StdEncoding.DecodeString(text); err != nil {
		return errors.New("is not in base64, as tsig-keygen writes it")
	}
	return nil
}

// checkService checks the URL of a service that gets credentials.
func checkService(raw string) error {
	u, err := HTTPURL(raw)
	if err == nil && u.Scheme == "http" && !policy.Loopback(u.Hostname()) {
		err = fmt.Errorf("%q is not https; http is for services on this machine only", raw)
	}
	return err
}

// checkIssuer checks that an issuer is not the address of a document about it.
func checkIssuer(d *strictyaml.Document, path, issuer string) {
	if meant, is := issuerOfDocument(issuer); is {
		d.Fault(path, "%q is the address of a document about an issuer; write the issuer itself: %s", issuer, meant)
	}
}
