package storetest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// WantKept fails the test if what an earlier version has stored does not mean the same to
// this one: if a field is lost, renamed or read in another way. record points to the zero
// value of the type that reads it.
func WantKept(t *testing.T, record any, stored string) {
	t.Helper()
	strict := json.NewDecoder(bytes.NewReader([]byte(stored)))
	strict.DisallowUnknownFields()
	if err := strict.Decode(record); err != nil {
		t.Errorf("%T: %v\n%s", record, err, stored)
		return
	}
	again, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object(t, []byte(stored)), object(t, again)); diff != "" {
		t.Errorf("%T has lost (-) or gained (+) something:\n%s", record, diff)
	}
}

// WantNames fails the test unless each exported field of the records has a name in the store.
func WantNames(t *testing.T, records ...any) {
	t.Helper()
	for _, record := range records {
		of := reflect.TypeOf(record)
		for i := range of.NumField() {
			switch field := of.Field(i); {
			case field.Anonymous && field.Tag.Get("json") == "":
				WantNames(t, reflect.Zero(field.Type).Interface())
			case field.IsExported() && field.Tag.Get("json") == "":
				t.Errorf("%s.%s has no name in the store", of, field.Name)
			}
		}
	}
}

func object(t *testing.T, text []byte) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}
