package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	type user struct {
		Name     string
		Password Secret
	}
	s := Secret("hunter2hunter2")
	for _, got := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s), fmt.Sprintf("%+v", user{"a", s})} {
		if strings.Contains(got, "hunter2") {
			t.Errorf("a secret prints as %s", got)
		}
	}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("secret", "value", s, "in", user{"a", s})
	asJSON, err := json.Marshal(user{"a", s})
	if err != nil || strings.Contains(logged.String()+string(asJSON), "hunter2") {
		t.Errorf("a secret is logged as %s and is %s in JSON (%v)", logged.String(), asJSON, err)
	}
	if s.Reveal() != "hunter2hunter2" {
		t.Error("Reveal does not reveal")
	}
}
