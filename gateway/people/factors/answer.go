package factors

import (
	"errors"
	"fmt"
	"strings"

	"authgate/gateway/wire/strictjson"

	"github.com/go-webauthn/webauthn/protocol"
)

// maxAnswer is the largest size of an answer, in bytes.
const maxAnswer = 64 << 10

// CeremonyKey returns the Key of the ceremony that an answer is for. It checks nothing else about
// the answer, so the key is only a name.
func CeremonyKey(answer []byte) (string, error) {
	said, err := readAnswer(answer)
	if err != nil {
		return "", err
	}
	challenge, _ := said["challenge"].(string)
	if raw, err := decode(challenge, challengeBytes); err != nil || len(raw) != challengeBytes {
		return "", malformed("it has no challenge of this gateway")
	}
	return challenge, nil
}

// readAnswer returns the client data of an answer, which the browser signs. In the answer and in
// these, no object has two members whose names differ only in case: the library reads either as the
// same member.
func readAnswer(answer []byte) (clientData map[string]any, err error) {
	if len(answer) > maxAnswer {
		return nil, malformed("it has more than %d bytes", maxAnswer)
	}
	members, err := readObject(answer)
	if err != nil {
		return nil, malformed("%w", err)
	}
	response, ok := members["response"].(map[string]any)
	if !ok {
		return nil, malformed("it has no response")
	}
	text, _ := response["clientDataJSON"].(string)
	raw, err := decode(text, maxAnswer)
	if err != nil {
		return nil, malformed("clientDataJSON %w", err)
	}
	if clientData, err = readObject(raw); err != nil {
		return nil, malformed("clientDataJSON: %w", err)
	}
	return clientData, nil
}

// readObject decodes one JSON object.
func readObject(raw []byte) (map[string]any, error) {
	members, err := strictjson.Object(raw)
	if err != nil {
		return nil, err
	}
	return members, checkNames(members)
}

// checkNames returns an error if an object in value has two members whose names differ only
// in case.
func checkNames(value any) error {
	switch value := value.(type) {
	case map[string]any:
		seen := make(map[string]bool, len(value))
		for name, member := range value {
			folded := strings.ToLower(strings.ToUpper(name)) // as encoding/json, which knows the Kelvin sign
			if seen[folded] {
				return fmt.Errorf("member %q appears twice", name)
			}
			seen[folded] = true
			if err := checkNames(member); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range value {
			if err := checkNames(element); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkClientData checks the client data of a ceremony. The library compares origins less exactly,
// and accepts features that the gateway does not have.
func (rp *RelyingParty) checkClientData(said map[string]any, kind protocol.CeremonyType, r *record) error {
	for name, want := range map[string]any{
		"type": string(kind), "challenge": r.Challenge, "origin": rp.origin,
	} {
		if said[name] != want {
			return refused("%s is %.200q, expected %q", name, fmt.Sprint(said[name]), want)
		}
	}
	if cross, given := said["crossOrigin"]; given && cross != false {
		return refused("the page is in a frame of another origin")
	}
	if _, given := said["topOrigin"]; given {
		return refused("the page is in a frame of another origin")
	}
	if _, given := said["tokenBinding"]; given && !tokenBindingUnused(said["tokenBinding"]) {
		return refused("the answer is bound to a connection by a token, which the gateway does not have")
	}
	return nil
}

// tokenBindingUnused reports whether a browser says that the connection has no token
// binding, which nothing supports any more.
func tokenBindingUnused(said any) bool {
	binding, _ := said.(map[string]any)
	_, given := binding["id"]
	return !given && (binding["status"] == "supported" || binding["status"] == "not-supported")
}

// describe returns an error of the library with its text for developers.
func describe(err error) error {
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.DevInfo != "" {
		return fmt.Errorf("%s: %.300s", e.Details, strings.TrimSpace(e.DevInfo))
	}
	return err
}
