package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"authgate/docs"
)

// schemaNode is a part of the schema with the key that it describes.
type schemaNode struct {
	key  string
	node map[string]any
}

// schemaNodes returns the parts of the schema that describe values, from the top.
// Policies within policies are left out.
func schemaNodes(t *testing.T) []schemaNode {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	spec := schema["$defs"].(map[string]any)["policy.Spec"].(map[string]any)
	var all []schemaNode
	var visit func(key string, node map[string]any)
	visit = func(key string, node map[string]any) {
		all = append(all, schemaNode{key, node})
		if properties, ok := node["properties"].(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				visit(strings.TrimPrefix(key+"."+name, "."), properties[name].(map[string]any))
			}
		}
		if items, ok := node["items"].(map[string]any); ok {
			visit(key+"[]", items)
		}
		if values, ok := node["additionalProperties"].(map[string]any); ok {
			visit(key+".NAME", values)
		}
		if _, ref := node["$ref"]; ref && key == "policies.NAME" {
			visit(key, spec)
		}
	}
	visit("", schema)
	return all
}

// TestSchemaKeys compares the keys of the schema with those of docs/configuration.
func TestSchemaKeys(t *testing.T) {
	t.Parallel()
	meanings, known := docs.Meanings(), map[string]bool{}
	for _, n := range schemaNodes(t) {
		known[n.key] = true
		_, inner := n.node["properties"]
		values, table := n.node["additionalProperties"].(map[string]any)
		_, ref := n.node["$ref"]
		leaf := !inner && !ref && !strings.HasSuffix(n.key, "[]") && !strings.HasSuffix(n.key, ".NAME") &&
			(!table || values["type"] != nil && values["properties"] == nil)
		if items, list := n.node["items"].(map[string]any); list && items["properties"] != nil {
			leaf = false
		}
		section := n.key[:max(0, strings.LastIndexByte(n.key, '.'))]
		if leaf && (n.node["description"] == nil || n.node["description"] == "") && meanings[section] == "" {
			t.Errorf("docs/configuration does not describe %s", n.key)
		}
	}
	if len(meanings) < 100 {
		t.Errorf("docs/configuration describes %d keys", len(meanings))
	}
	for key, meaning := range meanings {
		if !known[key] {
			t.Errorf("the schema does not have %s", key)
		}
		if meaning == "" || strings.Contains(meaning, "](") {
			t.Errorf("the meaning of %s is %q", key, meaning)
		}
	}
}

// TestSchemaWords checks that the words of the schema are valid and others are not.
func TestSchemaWords(t *testing.T) {
	t.Parallel()
	tested := 0
	for _, n := range schemaNodes(t) {
		alternatives, ok := n.node["anyOf"].([]any)
		if !ok {
			continue
		}
		tested++
		for _, word := range alternatives[0].(map[string]any)["enum"].([]any) {
			if message := wordFault(t, n.key, word.(string)); message != "" {
				t.Errorf("%s: %s", n.key, message)
			}
		}
		if wordFault(t, n.key, "no-such-word") == "" {
			t.Errorf("%s takes any word", n.key)
		}
	}
	if tested < 15 {
		t.Errorf("the schema has words for %d keys", tested)
	}
}

// wordFault parses a file with only one key and returns the mistake that is the word.
func wordFault(t *testing.T, key, word string) string {
	t.Helper()
	_, err := Parse("config.yaml", []byte(nested(key, fmt.Sprintf("%q", word))+"\n"))
	diagnostics, _ := errors.AsType[Diagnostics](err)
	for _, d := range diagnostics {
		if d.Key == strings.ReplaceAll(key, "[]", "[0]") && strings.Contains(d.Message, fmt.Sprintf("%q", word)) {
			return d.Message
		}
	}
	return ""
}

// nested returns a file in which only key is given.
func nested(key, value string) string {
	text := value
	for _, segment := range slices.Backward(strings.Split(key, ".")) {
		if list, ok := strings.CutSuffix(segment, "[]"); ok {
			text = fmt.Sprintf("{%s: [%s]}", list, text)
		} else {
			text = fmt.Sprintf("{%s: %s}", segment, text)
		}
	}
	return text
}
