"""What PTrue, CCP and SAR need beside the candidates: one row an answer, by the models that judge it (D16)."""
