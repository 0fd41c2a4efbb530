"""llama.cpp's slots: what one holds (`content`), saved states (`host`), who gets which (`server`), as a prefix cache (`slot_cache`)."""
