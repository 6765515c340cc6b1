"""The float models that quantisers are compared on, where they are published, and how their inputs are scaled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


@dataclass(frozen=True)
class Model:
    file: str
    what: str
    origin: str
    mean: Any = 0.0
    std: Any = 1.0
    shapes: dict[str, int] = field(default_factory=dict)
    data: str = "pictures"
    side: int = 0  # of the input, where the published one would take too long


MODELS = {
    "mobilenet_v1": Model("mobilenet_v1_vww.tflite", "MobileNetV1 0.25, 96x96, person or not",
                          "mlcommons/tiny visual_wake_words", 0, 255),
    "mobilenet_v2": Model("mobilenet_v2_0.35_128_tfs_channel_first.onnx", "MobileNetV2 0.35, 128x128, ReLU6",
                          "STMicroelectronics/stm32ai-modelzoo-services sample_models", 127.5, 127.5),
    "mobilenet_v3": Model("ppocr_cls_mobilenet_v3.onnx", "MobileNetV3 small 0.35, hard-swish, 48x192 (PP-OCR cls)",
                          "james77777778/PaddleOCR-WebApp", 127.5, 127.5, {"x:2": 48, "x:3": 192}),
    "yolox_nano": Model("yolox_nano.onnx", "YOLOX-nano detector, SiLU, joined heads, 224x224 of its 416x416",
                        "DefTruth/lite.ai.toolkit", *IMAGENET, side=224),
    "ssd": Model("st_ssd_mobilenet_v1_025_256.onnx", "SSD MobileNetV1 0.25 detector, 256x256",
                 "STMicroelectronics/stm32ai-modelzoo-services sample_models", 127.5, 127.5),
    "segmentation": Model("ppocr_det_segmentation.onnx", "text segmentation, MobileNetV3 + DB head, 160x160",
                          "james77777778/PaddleOCR-WebApp", *IMAGENET, shapes={"x:2": 160, "x:3": 160}),
    "pose": Model("pfld_106_lite.onnx", "PFLD, 106 face key points, 112x112", "DefTruth/lite.ai.toolkit", 0, 255),
    "keyword": Model("kws_dscnn.tflite", "DS-CNN keyword spotting, 49x10 MFCC", "mlcommons/tiny keyword_spotting",
                     data="speech"),
    "anomaly": Model("ad01.tflite", "dense autoencoder, 640 log-mel values", "mlcommons/tiny anomaly_detection",
                     data="machine"),
    "face": Model("mobilefacenet_fp32.onnx", "MobileFaceNet, PReLU, 112x112", "PeleAB/STM32N6-FaceRecognition",
                  127.5, 128),
    "digits_cnn": Model("mnist_cnn.tflite", "two convolutions, MNIST digits", "jsmith173/AI-STM32H7-V1.0", 0, 255,
                        data="digits"),
    "wand": Model("magic_wand.tflite", "1-D convolutions, gestures, 119 x 6 values of accelerometer and gyroscope",
                  "nanguoyu/Magic_Wand_Data", data="gestures"),
    "mobilenet_v2_half": Model("mobilenet_v2_128_0.5.onnx", "MobileNetV2 0.5, 128x128, ReLU6",
                               "STMicroelectronics/stm32ai-modelzoo-services tutorials", 127.5, 127.5),
    "yunet": Model("yunet_2026may.onnx", "YuNet face detector, twelve outputs, 160x160",
                   "RuDr8A/RealTime-PPE-Compliance", shapes={"input:2": 160, "input:3": 160}),
    "resnet8": Model("resnet8_cifar.tflite", "ResNet of 8 layers, 32x32", "mlcommons/tiny image_classification"),
    "yamnet": Model("yamnet_256_64x96_tl.onnx", "YAMNet 256, 64x96 log-mel, sound events",
                    "STMicroelectronics/stm32ai-modelzoo-services sample_models", data="sound"),
    "text_angle": Model("chinese_ocr_angle_net.onnx", "ShuffleNetV2, is a line of text upside down, 32x192",
                        "DefTruth/lite.ai.toolkit", 127.5, 127.5),
    "ultraface": Model("ultraface-slim-320.onnx", "UltraFace slim detector, boxes decoded, 240x320",
                       "DefTruth/lite.ai.toolkit", 127, 128),
    "age": Model("ssrnet.onnx", "SSR-Net, age of a face, tanh and ReLU streams, 64x64", "DefTruth/lite.ai.toolkit",
                 *IMAGENET),
}  # fmt: skip
