package section

import (
	"errors"
	"regexp"
	"strings"
	"unicode"

	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Checks returns the checks that the tags of keys name.
func Checks() map[string]func(d *strictyaml.Document, path, value string) {
	phrase := func(format string, check func(value string) error) func(d *strictyaml.Document, path, value string) {
		return func(d *strictyaml.Document, path, value string) {
			if err := check(value); err != nil {
				d.Fault(path, format, value, err)
			}
		}
	}
	proof := phrase("%q %v", checkProof)
	return map[string]func(d *strictyaml.Document, path, value string){
		"audience": phrase("the audience %[2]v", policy.CheckName),
		"claim":    phrase("%q %v", policy.CheckClaim), // or a dotted path
		"role":     phrase("the role %[2]v", policy.CheckRole),
		"scope":    phrase("%q %v", policy.CheckScope),
		"proof":    proof,
		"proofs": func(d *strictyaml.Document, path, value string) {
			for one := range strings.SplitSeq(value, " ") {
				if value != "" {
					proof(d, path, one)
				}
			}
		},
		"text":   phrase("%[2]v", checkText),
		"issuer": checkIssuer,
		"key": func(d *strictyaml.Document, path, value string) {
			(&Report{d}).KeyLength(path, strictyaml.Secret(value))
		},
		"url": func(d *strictyaml.Document, path, value string) {
			(&Report{d}).ProviderURL(path, value, HTTPURL)
		},
		"endpoint": func(d *strictyaml.Document, path, value string) {
			(&Report{d}).ProviderURL(path, value, EndpointURL)
		},
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

// checkIssuer checks that an issuer is not the address of a document about it.
func checkIssuer(d *strictyaml.Document, path, issuer string) {
	if meant, is := issuerOfDocument(issuer); is {
		d.Fault(path, "%q is the address of a document about an issuer; write the issuer itself: %s", issuer, meant)
	}
}
