package bodies

import (
	"strings"
	"testing"
)

// A form has each named field once and is UTF-8, and an error quotes nothing of it.
func TestParseForm(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"name=a&secret=s3cret": "", "secret=s3cret&name=&more=1&more=2": "",
		"name=a":                               "there are 0 fields secret",
		"name=a&secret=s3cret&secret=s3cret":   "there are 2 fields secret",
		"name=a&secret=s3cret%":                "malformed encoding",
		"name=a&secret=s3cret&more=%ff":        "invalid UTF-8",
		"name=a&secret=s3cret;more=1":          "malformed encoding",
		"name=%61&secret=s3cret&secret%3D=one": "",
	} {
		values, err := ParseForm([]byte(body), "name", "secret")
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want || strings.Contains(got, "s3cret") || want == "" && values.Get("secret") != "s3cret" {
			t.Errorf("%s: %v, %q; want %q", body, values, got, want)
		}
	}
}
