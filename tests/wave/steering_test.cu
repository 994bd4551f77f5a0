int wave_placeholder;
