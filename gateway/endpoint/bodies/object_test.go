package bodies_test

import (
	"errors"
	"slices"
	"testing"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/proxy/web"
)

// Bodies are one JSON object without double members. An error quotes none of it.
func TestObject(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", "null", "[]", `"a"`, `{"a":1,"a":2}`, `{"a":1}{}`, "{\"a\":\"\xff\"}", `{"a":secret}`,
	} {
		_, err := bodies.ParseObject([]byte(body))
		refused, ok := errors.AsType[*web.Error](err)
		if !ok || refused.Status != 400 || refused.Cause != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
	o, err := bodies.ParseObject([]byte(`{"text":"a","true":true,"false":false,"null":null,"one":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"text": "a", "true": "", "null": "", "one": "", "none": ""} {
		if got, err := o.Text(name); got != want || (err == nil) != (name == "text") {
			t.Errorf("Text(%q): %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]bool{"true": true, "false": false, "none": false, "text": false, "null": false,
		"one": false} {
		known := name == "true" || name == "false" || name == "none"
		if got, err := o.Flag(name); got != want || (err == nil) != known {
			t.Errorf("Flag(%q): %t, %v", name, got, err)
		}
	}
	if o, err = bodies.ParseObject([]byte(
		`{"two":["a","b"],"none":[],"null":null,"text":"a","numbers":["a",1],"nulls":["a",null],"object":{}}`)); err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{"two": {"a", "b"}, "none": {}}
	for _, name := range []string{"two", "none", "null", "text", "numbers", "nulls", "object", "missing"} {
		got, err := o.Texts(name)
		if want := known[name]; !slices.Equal(got, want) || (got == nil) != (want == nil) || (err == nil) != (want != nil) {
			t.Errorf("Texts(%q): %q, %v", name, got, err)
		}
		if refused, ok := errors.AsType[*web.Error](err); err != nil && (!ok || refused.Status != 400 ||
			refused.Detail != `The field "`+name+`" must be an array of strings.`) {
			t.Errorf("Texts(%q): %v", name, err)
		}
	}
}
