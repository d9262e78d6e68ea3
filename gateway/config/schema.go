package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	"authgate/docs"
)

// Schema returns a JSON Schema (draft 2020-12) of the configuration file, for
// editors. It ends with a line break. A file that does not fit it is not valid; one
// that fits can still have mistakes.
func Schema() []byte {
	schema := Environment{}.reader("config.yaml").Schema(docs.Meanings(), defaults())
	schema["title"] = "The configuration of authgate"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(schema); err != nil {
		panic(fmt.Sprintf("config: the schema is no JSON: %v", err)) // it has only maps, lists and texts
	}
	return b.Bytes()
}
